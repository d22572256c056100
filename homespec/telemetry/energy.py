"""Energy that the processor took, by the counters of Intel's and AMD's processors (RAPL), where readable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from homespec.runtime.cgroups import read_integer, read_text


@dataclass(frozen=True, slots=True)
class EnergyCounter:
    """A counter of microjoules.

    Attributes:
        microjoules: what it shows.
        range_microjoules: behind which it begins with 0 again.
    """

    microjoules: int
    range_microjoules: int


def read_energy(root: Path = Path("/")) -> dict[str, EnergyCounter]:
    """Zone -> its counter; empty where there is none, or where only the superuser may read it.

    Only whole processors: their cores, graphics and memory controllers are parts of them, and a counter of
    the platform would count them twice.
    """
    counters: dict[str, EnergyCounter] = {}
    for zone in sorted((root / "sys/class/powercap").glob("intel-rapl:*")):
        microjoules, largest = read_integer(zone / "energy_uj"), read_integer(zone / "max_energy_range_uj")
        is_processor = (read_text(zone / "name") or "").startswith("package")
        if is_processor and microjoules is not None and largest:
            counters[zone.name] = EnergyCounter(microjoules, largest)
    return counters


def joules_between(before: Mapping[str, EnergyCounter], after: Mapping[str, EnergyCounter]) -> float | None:
    """What was taken between two readings, during which no counter may have wrapped twice (many minutes)."""
    if not after or before.keys() != after.keys():
        return None
    taken = (
        (counter.microjoules - before[zone].microjoules) % counter.range_microjoules
        for zone, counter in after.items()
    )
    return sum(taken) / 1e6
