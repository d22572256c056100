"""What memory this machine can give, and what its CPU can do, as Linux tells it.

Every reader takes the root of a file tree, so that recorded machines can be read like the running one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from homespec.runtime.cgroups import ControlGroup, control_groups, read_integer, read_text

LEAST_MARGIN_BYTES = 300_000_000
MARGIN_FRACTION = 0.1

# Above this load per CPU, the work of other programs shows in whatever is measured.
_HIGH_LOAD = 0.5
# Version 1 writes "no limit" as the largest multiple of a page.
_NO_LIMIT = 1 << 60


@dataclass(frozen=True, slots=True)
class MemoryBound:
    """One limit on the memory of this process.

    Attributes:
        source: which one, for people.
        limit_bytes: the memory that is shared under it.
        available_bytes: what of it could still be used without swapping.
    """

    source: str
    limit_bytes: int
    available_bytes: int

    def headroom_bytes(self, margin_bytes: int | None) -> int:
        """What remains for models once the margin for other services is kept free.

        Args:
            margin_bytes: None for the larger of 300 MB and a tenth of the limit.
        """
        if margin_bytes is None:
            margin_bytes = max(LEAST_MARGIN_BYTES, int(self.limit_bytes * MARGIN_FRACTION))
        return max(0, self.available_bytes - margin_bytes)


@dataclass(frozen=True, slots=True)
class MachineMemory:
    """The memory of a machine as this process may use it.

    Attributes:
        bounds: the machine's memory first, then control groups, own group first. All of them hold.
        swap_bytes, swap_free_bytes: shown to people; never headroom, since a model that swaps stands still.
        zram_bytes: the part of the swap that is compressed memory, and so no memory at all.
    """

    bounds: tuple[MemoryBound, ...]
    swap_bytes: int = 0
    swap_free_bytes: int = 0
    zram_bytes: int = 0

    def tightest_bound(self, margin_bytes: int | None = None) -> MemoryBound:
        """The bound that leaves the least headroom."""
        return min(self.bounds, key=lambda bound: bound.headroom_bytes(margin_bytes))

    def headroom_bytes(self, margin_bytes: int | None = None) -> int:
        """What models may use; see `MemoryBound.headroom_bytes`."""
        return self.tightest_bound(margin_bytes).headroom_bytes(margin_bytes)


def read_memory(root: Path = Path("/")) -> MachineMemory:
    """The smaller of the machine's available memory and every control group's, with swap for the record.

    MemAvailable counts the page cache as available, also the pages that already hold a model; a model's price
    counts those pages again, so they enter once on each side.
    """
    meminfo = _read_meminfo(root)
    total_bytes = meminfo.get("MemTotal", 0)
    # Kernels before 3.14 do not say MemAvailable; what is free is a safe answer.
    available_bytes = meminfo.get("MemAvailable", meminfo.get("MemFree", 0))
    bounds = [MemoryBound("the machine's memory", total_bytes, available_bytes)]
    # Cached pages that this process's group has not used lately are given back before a limit bites; they are
    # charged to every group above as well. Those of other groups may be wanted again and do not count.
    idle_cache_bytes: dict[int, int] = {}
    for group in control_groups("memory", root):
        if group.own:
            idle_cache_bytes[group.version] = _idle_cache_bytes(group)
        bounds += _group_bounds(group, total_bytes, idle_cache_bytes[group.version])
    return MachineMemory(
        bounds=tuple(bounds),
        swap_bytes=meminfo.get("SwapTotal", 0),
        swap_free_bytes=meminfo.get("SwapFree", 0),
        zram_bytes=_zram_bytes(root),
    )


def imagined_memory(total_bytes: int) -> MachineMemory:
    """A machine that is not this one: nothing but its size is known."""
    return MachineMemory(bounds=(MemoryBound("the given memory", total_bytes, total_bytes),))


def memory_pressure_percent(root: Path = Path("/")) -> float | None:
    """How much of the last ten seconds some task waited for memory (PSI); None where not recorded."""
    for line in (read_text(root / "proc/pressure/memory") or "").splitlines():
        fields = line.split()
        if fields[:1] == ["some"]:
            values = dict(field.split("=", 1) for field in fields[1:] if "=" in field)
            return float(values.get("avg10", 0))
    return None


def is_busy() -> bool:
    """Whether programs had so much to do in the last minute that times measured now may be too high."""
    return os.getloadavg()[0] > _HIGH_LOAD * (os.cpu_count() or 1)


def cpu_governor(root: Path = Path("/")) -> str | None:
    """Who sets the clock of the first CPU, such as `powersave`; None where the system does not tell."""
    return read_text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def read_cpu_times(root: Path = Path("/")) -> tuple[int, int]:
    """Ticks since the start that all CPUs together were at work, and ticks in all (proc(5), stat)."""
    fields = (read_text(root / "proc/stat") or "").partition("\n")[0].split()
    # Time of guests, behind the eighth number, is part of user time.
    ticks = [int(field) for field in fields[1:9] if field.isdigit()]
    return sum(ticks) - sum(ticks[3:5]), sum(ticks)


def _read_meminfo(root: Path) -> dict[str, int]:
    """/proc/meminfo in bytes."""
    values: dict[str, int] = {}
    for line in (read_text(root / "proc/meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        fields = rest.split()
        if fields and fields[0].isdigit():
            values[name] = int(fields[0]) * (1024 if fields[1:] == ["kB"] else 1)
    return values


def _group_bounds(group: ControlGroup, total_bytes: int, idle_cache_bytes: int) -> Iterator[MemoryBound]:
    if group.version == 2:
        # memory.high does not kill but throttles so hard that the effect on a reader of weights is the same.
        limits = {name: read_integer(group.directory / name) for name in ("memory.max", "memory.high")}
        used_bytes = read_integer(group.directory / "memory.current")
    else:
        limits = {"memory.limit_in_bytes": read_integer(group.directory / "memory.limit_in_bytes")}
        used_bytes = read_integer(group.directory / "memory.usage_in_bytes")
    if used_bytes is None:
        return
    used_bytes = max(0, used_bytes - idle_cache_bytes)
    for name, limit_bytes in limits.items():
        if limit_bytes is not None and limit_bytes < _NO_LIMIT:
            limit_bytes = min(limit_bytes, total_bytes or limit_bytes)
            source = f"{name} of the control group {group.directory.name or '/'}"
            yield MemoryBound(source, limit_bytes, max(0, limit_bytes - used_bytes))


def _idle_cache_bytes(group: ControlGroup) -> int:
    name = "inactive_file" if group.version == 2 else "total_inactive_file"
    for line in (read_text(group.directory / "memory.stat") or "").splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdigit():
            return int(value)
    return 0


def _zram_bytes(root: Path) -> int:
    rows = (line.split() for line in (read_text(root / "proc/swaps") or "").splitlines()[1:])
    return sum(int(row[2]) * 1024 for row in rows if len(row) > 2 and row[0].startswith("/dev/zram"))
