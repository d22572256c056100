"""Fetches a model from a Hugging Face repository, resuming where an earlier attempt ended.

`HF_ENDPOINT`, `HF_TOKEN`, `HF_HUB_OFFLINE` and the user's cache are respected, since huggingface_hub does the
talking. `hf_hub_download` itself is not used: it throws an unfinished file away, and a home line that drops
near the end of a gigabyte should not have to begin again.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from homespec.catalog.check import Progress, hash_file
from homespec.catalog.entries import HubSource, ModelEntry
from homespec.catalog.partial import SourceError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_log = logging.getLogger(__name__)

_INCOMPLETE = "hub"
_FRUITLESS_ATTEMPTS = 3
_PAUSE_SECONDS = 1.0
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


def needed_bytes(entry: ModelEntry, workplace: Path) -> int:
    """How much more room the disk must have."""
    return max(entry.size_bytes - _size(workplace / _INCOMPLETE), 0)


def fetch(source: HubSource, entry: ModelEntry, workplace: Path, progress: Progress) -> Path:
    """Fetches the file, or copies it from the user's Hugging Face cache.

    Args:
        source: repository, file and revision.
        entry: what the catalogue promises; an answer that promises something else is not fetched.
        workplace: the model's partial directory, whose lock the caller holds.
        progress: called with bytes done and bytes in all.

    Raises:
        SourceError: it could not be had.
        OSError: the disk is full, or cannot be written.
    """
    # Imported here: it costs a quarter of a second, and most commands do not download.
    from huggingface_hub import try_to_load_from_cache

    incomplete = workplace / _INCOMPLETE
    cached = try_to_load_from_cache(source.repo, source.file, revision=source.revision)
    if isinstance(cached, str) and hash_file(Path(cached)) == entry.sha256:
        shutil.copyfile(cached, incomplete)
        return incomplete
    with _quiet():
        attempts_left = _FRUITLESS_ATTEMPTS
        while True:
            before_bytes = _size(incomplete)
            try:
                _resume(source, entry, incomplete, progress)
            except SourceError:
                raise
            # The HTTP library behind huggingface_hub, and with it the exceptions, depends on the version.
            except Exception as error:
                if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
                    raise
                attempts_left = _FRUITLESS_ATTEMPTS if _size(incomplete) > before_bytes else attempts_left - 1
                if attempts_left == 0 or not incomplete.exists() or _status(error) is not None:
                    raise _explained(error, source) from error
                _log.info("The connection to Hugging Face broke; resuming.", exc_info=True)
                time.sleep(_PAUSE_SECONDS)
            else:
                return incomplete


def _resume(source: HubSource, entry: ModelEntry, incomplete: Path, progress: Progress) -> None:
    """Fetches what is missing of the file, in one connection; makes the file once the server has answered."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # documented, yet unmarked

    url = hf_hub_url(source.repo, source.file, revision=source.revision)
    offered = get_hf_file_metadata(url)
    other_content = _SHA256.fullmatch(offered.etag or "") and offered.etag != entry.sha256
    if other_content or offered.size not in (None, entry.size_bytes):
        raise SourceError(
            f"Hugging Face offers another file as {source.repo}/{source.file} than the catalogue promises"
        )
    if _size(incomplete) > entry.size_bytes:
        incomplete.unlink()
    with _CountingWriter(io.FileIO(incomplete, "a"), progress, entry.size_bytes) as file:
        have_bytes = file.tell()
        progress(have_bytes, entry.size_bytes)
        if have_bytes < entry.size_bytes:
            headers = build_hf_headers()
            http_get(url, file, resume_size=have_bytes, headers=headers, expected_size=entry.size_bytes)


class _CountingWriter(io.BufferedWriter):
    """Reports every write; `http_get` knows no other way to follow its progress in all versions."""

    def __init__(self, raw: io.FileIO, progress: Progress, total_bytes: int) -> None:
        super().__init__(raw)
        self._progress = progress
        self._total_bytes = total_bytes

    def write(self, data: Buffer, /) -> int:
        num_bytes = super().write(data)
        self._progress(min(self.tell(), self._total_bytes), self._total_bytes)
        return num_bytes


def _status(error: Exception) -> int | None:
    """The HTTP status that an error carries, if any."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _explained(error: Exception, source: HubSource) -> SourceError:
    from huggingface_hub import errors

    where = f"{source.repo} on Hugging Face"
    status = _status(error)
    match error:
        case errors.OfflineModeIsEnabled():
            return SourceError("Hugging Face was not asked, since HF_HUB_OFFLINE is set")
        case errors.GatedRepoError():
            return SourceError(f"{where} wants its terms accepted and a token in HF_TOKEN")
        case errors.EntryNotFoundError():
            return SourceError(f"{where} has no file {source.file}")
        case errors.RevisionNotFoundError():
            return SourceError(f"{where} has no revision {source.revision}")
        case errors.RepositoryNotFoundError():
            return SourceError(f"there is no {where}, or it needs a token in HF_TOKEN")
        case errors.HfHubHTTPError() if status is not None:
            return SourceError(f"Hugging Face answered {status} for {source.repo}/{source.file}")
    return SourceError(f"Hugging Face could not be reached ({type(error).__name__})")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences huggingface_hub's own progress bars and warnings: homespec shows its own."""
    from huggingface_hub.utils import logging as hub_logging
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    verbosity, had_bars = hub_logging.get_verbosity(), not are_progress_bars_disabled()
    hub_logging.set_verbosity(logging.ERROR)
    if had_bars:
        disable_progress_bars()
    try:
        yield
    finally:
        hub_logging.set_verbosity(verbosity)
        if had_bars:
            enable_progress_bars()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
