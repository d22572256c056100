"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from homespec.errors import DiskSpaceError, HomespecError


@contextlib.contextmanager
def written_whole(destination: Path) -> Iterator[Path]:
    """Yields a path beside the destination to write to; the file takes its place when the block has ended.

    A failure in the block leaves nothing behind, and what was at the destination before as it was. A process
    that is killed leaves a hidden `.part` file, never a half one under the destination's name.

    Raises:
        DiskSpaceError: there is no room.
        HomespecError: the file cannot be written for another reason.
    """
    part = destination.with_name(f".{destination.name}.{os.getpid()}.part")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        yield part
        sync(part)
        part.replace(destination)
        sync(destination.parent)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskSpaceError(
                f"There is no room for {destination.name} in {destination.parent}.",
                hint="Free some space, or name a file on another disk.",
            ) from error
        raise HomespecError(
            f"{destination} cannot be written: {error.strerror or error}.", hint="Name a file elsewhere."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def sync(path: Path) -> None:
    """Makes what was written to a file, or the names in a directory, outlast a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
