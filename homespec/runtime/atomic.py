"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from homespec.errors import DiskSpaceError, HomespecError


@contextlib.contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yields a path beside a file to write to; what is there takes the file's place when the block has ended.

    Whoever reads or writes at the same time, and the next to look after a power failure, sees one version or
    the other. A failure in the block leaves nothing behind; a process that is killed leaves a hidden `.part`.

    Args:
        path: missing directories are made.

    Raises:
        OSError: it could not be written; what was there before still is.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        sync(part)
        part.replace(path)
        sync(path.parent)
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def write_atomically(path: Path, text: str) -> None:
    """Replaces a text that is nobody else's to read; see `replaced`."""
    with replaced(path) as part:
        part.touch(mode=0o600)
        part.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def written_whole(destination: Path) -> Iterator[Path]:
    """`replaced` for a file that the user asked for.

    Raises:
        DiskSpaceError: there is no room.
        HomespecError: the file cannot be written for another reason.
    """
    try:
        with replaced(destination) as part:
            yield part
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskSpaceError(
                f"There is no room for {destination.name} in {destination.parent}.",
                hint="Free some space, or name a file on another disk.",
            ) from error
        raise HomespecError(
            f"{destination} cannot be written: {error.strerror or error}.", hint="Name a file elsewhere."
        ) from error


def sync(path: Path) -> None:
    """Makes what was written to a file, or the names in a directory, outlast a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
