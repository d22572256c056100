"""SHA-256 digests of model files, remembered from run to run: a file of gigabytes is read once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path

from homespec.catalog.check import Progress, hash_file
from homespec.runtime.atomic import write_atomically
from homespec.runtime.state import state_directory


def remembered_digest(path: Path, progress: Progress | None = None) -> str:
    """The file's sha256 in hexadecimal, as it was when the file's size, time or place last changed.

    It tells what was measured. To find out whether a file is intact, read it: `check.check_file`.

    Args:
        path: the file.
        progress: called while the file is read, if it is.

    Raises:
        OSError: the file cannot be read.
    """
    path = path.resolve()
    store = state_directory() / "digests" / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json"
    state = _state(path)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(store.read_text(encoding="utf-8"))
        if known["state"] == state:
            return str(known["sha256"])
    digest = hash_file(path, progress)
    # A file that was written to meanwhile has no digest worth keeping; a disk that is full loses only time.
    if _state(path) == state:
        with contextlib.suppress(OSError):
            write_atomically(store, json.dumps({"path": str(path), "state": state, "sha256": digest}))
    return digest


def _state(path: Path) -> dict[str, int]:
    """What changes whenever a file's content does, or another file takes its place."""
    found = path.stat()
    return {"size_bytes": found.st_size, "mtime_ns": found.st_mtime_ns, "inode": found.st_ino}
