"""The place where a model is put together before it becomes one: `.partial/NAME/` in the models directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from homespec.catalog.store import model_path
from homespec.errors import DownloadError, ModelNotFoundError

_PARTIAL = ".partial"


class SourceError(Exception):
    """One source did not deliver; the text is a clause without a full stop. Never leaves the catalogue."""


def partial_directory(name: str, directory: Path) -> Path:
    """Where the pieces of this model lie while it is pulled."""
    return directory / _PARTIAL / name


@contextlib.contextmanager
def locked(name: str, directory: Path) -> Iterator[Path]:
    """Holds the model's lock and yields its partial directory, which exists meanwhile and goes if empty.

    The lock belongs to the process (flock): a killed process leaves none behind. The lock file itself stays,
    since removing a file that another process may be about to lock would give two processes "the" lock.

    Raises:
        DownloadError: another process holds it.
    """
    workplace = partial_directory(name, directory)
    workplace.mkdir(parents=True, exist_ok=True)
    with workplace.with_name(f"{name}.lock").open("a+", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            holder = lock.read().strip()
            raise DownloadError(
                f"Another process{f' ({holder})' if holder else ''} is at work on {name}.",
                hint="Wait until it has finished, then run the command again.",
            ) from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        workplace.mkdir(exist_ok=True)  # the process that held the lock before may have removed it
        try:
            yield workplace
        finally:
            with contextlib.suppress(OSError):  # something has arrived, and stays
                workplace.rmdir()


def holds(name: str, directory: Path) -> bool:
    """Whether there is anything of this model in the directory, finished or not."""
    return os.path.lexists(model_path(name, directory)) or partial_directory(name, directory).exists()


def remove(name: str, directory: Path) -> int:
    """Deletes a model and whatever was left of an unfinished pull of it.

    Returns:
        How many bytes that freed.

    Raises:
        ModelNotFoundError: there is neither.
        DownloadError: another process is pulling it.
    """
    path = model_path(name, directory)
    if not holds(name, directory):
        raise ModelNotFoundError(f"The model {name} is not in {directory}.", hint="homespec models list")
    with locked(name, directory) as workplace:
        freed_bytes = tree_bytes(workplace)
        with contextlib.suppress(FileNotFoundError):
            freed_bytes += path.lstat().st_size  # what a link points to stays
            path.unlink()
        shutil.rmtree(workplace, ignore_errors=True)
    return freed_bytes


def tree_bytes(directory: Path) -> int:
    """The sizes of all files below a directory, which others may be changing at the same time."""
    total_bytes = 0
    for root, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total_bytes += (Path(root) / name).stat().st_size
    return total_bytes
