"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from homespec.errors import DiskSpaceError, HomespecError

_PART = ".part"


@contextlib.contextmanager
def replaced(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """Yields an empty file beside a file; what is in it takes the file's place when the block has ended.

    Whoever reads or writes at the same time, and the next to look after a power failure, sees one version or
    the other. A failure in the block leaves nothing behind; what a killed process left goes with the next
    write into its directory.

    Args:
        path: missing directories are made.
        mode: permissions of the new file, before the umask.

    Raises:
        OSError: it could not be written; what was there before still is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_remains(path.parent)
    part, handle = _new_part(path, mode)
    try:
        yield part
        sync(part)
        part.replace(path)
        sync(path.parent)
    finally:
        os.close(handle)
        with contextlib.suppress(OSError):
            part.unlink()


def _new_part(path: Path, mode: int) -> tuple[Path, int]:
    """A new file beside a file, and a handle that keeps it locked as long as this process lives."""
    while True:
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_PART}")
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        _lock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return part, handle
        os.close(handle)  # Somebody took it for remains before it was locked.


def _remove_remains(directory: Path) -> None:
    """Removes what nobody writes any more."""
    for part in directory.glob(f".*{_PART}"):
        with contextlib.suppress(OSError):
            handle = os.open(part, os.O_WRONLY)
            try:
                if _lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    part.unlink()
            finally:
                os.close(handle)


def _lock(handle: int, operation: int) -> bool:
    """False where another has the lock, or the file system knows none."""
    try:
        fcntl.flock(handle, operation)
    except OSError:
        return False
    return True


def write_atomically(path: Path, text: str) -> None:
    """Replaces a text that is nobody else's to read; see `replaced`."""
    with replaced(path, mode=0o600) as part:
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
