"""What earlier loads taught about memory prices: bytes to add, per architecture and quantization."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from homespec.runtime.atomic import write_atomically
from homespec.runtime.state import state_directory


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
    with contextlib.suppress(OSError):
        write_atomically(_path(), json.dumps(values, indent=1))
