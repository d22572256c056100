"""Where homespec keeps what it measured and what was said."""

from __future__ import annotations

import os
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
