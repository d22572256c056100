"""What earlier loads taught about memory prices: bytes to add, per architecture and quantization."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import platformdirs

STATE_VARIABLE = "HOMESPEC_STATE"


def state_directory() -> Path:
    """Where homespec keeps what it measured: `HOMESPEC_STATE`, or its directory in the XDG state home."""
    named = os.environ.get(STATE_VARIABLE)
    return Path(named).expanduser() if named else platformdirs.user_state_path("homespec")


def _path() -> Path:
    return state_directory() / "memory-corrections.json"


def load_corrections() -> dict[str, int]:
    """Correction key -> bytes; empty when there is no file, or none that can be read."""
    try:
        values = json.loads(_path().read_text(encoding="utf-8"))
        return {str(key): int(value) for key, value in values.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        # It is a cache of measurements: the next load writes it anew.
        return {}


def store_correction(key: str, num_bytes: int) -> None:
    """Keeps a correction for the next plan; a disk that cannot be written loses it, and nothing else."""
    values = load_corrections() | {key: num_bytes}
    path = _path()
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(values, indent=1), encoding="utf-8")
        temporary.replace(path)
