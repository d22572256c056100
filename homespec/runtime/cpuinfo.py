"""What the CPU can do, as Linux tells it."""

from __future__ import annotations

from pathlib import Path

from homespec.runtime.cgroups import read_text


def cpu_features(root: Path = Path("/")) -> frozenset[str]:
    """Instruction sets of the first CPU, in the kernel's words: `flags` on x86, `Features` on arm64."""
    for line in (read_text(root / "proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()
