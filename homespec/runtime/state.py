"""Where homespec keeps what it measured and what was said, and how it writes there."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import platformdirs

STATE_VARIABLE = "HOMESPEC_STATE"


def state_directory() -> Path:
    """`HOMESPEC_STATE`, or homespec's directory in the XDG state home; it need not exist."""
    named = os.environ.get(STATE_VARIABLE)
    return Path(named).expanduser() if named else platformdirs.user_state_path("homespec")


def cache_directory() -> Path:
    """For what can be made again: below `HOMESPEC_STATE`, or homespec's directory in the XDG cache home."""
    named = os.environ.get(STATE_VARIABLE)
    return Path(named).expanduser() / "cache" if named else platformdirs.user_cache_path("homespec")


def write_atomically(path: Path, text: str) -> None:
    """Replaces a file's content; whoever reads or writes at the same time sees one version or the other.

    Args:
        path: missing directories are made.
        text: the new content.

    Raises:
        OSError: it could not be written; the old content is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
