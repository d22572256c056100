"""Energy counters, on made-up trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from homespec.telemetry.energy import EnergyCounter, joules_between, read_energy
from tests.support.machine_trees import write

ZONES = "sys/class/powercap"


def zone(root: Path, number: str, name: str, microjoules: object, largest: int = 1_000_000) -> None:
    write(root, f"{ZONES}/intel-rapl:{number}/name", name)
    write(root, f"{ZONES}/intel-rapl:{number}/energy_uj", microjoules)
    write(root, f"{ZONES}/intel-rapl:{number}/max_energy_range_uj", largest)


def test_only_whole_processors_are_counted(tmp_path: Path) -> None:
    zone(tmp_path, "0", "package-0", 500)
    zone(tmp_path, "0:0", "core", 300)
    zone(tmp_path, "1", "package-1", 700)
    zone(tmp_path, "2", "psys", 2000)
    assert read_energy(tmp_path) == {
        "intel-rapl:0": EnergyCounter(500, 1_000_000),
        "intel-rapl:1": EnergyCounter(700, 1_000_000),
    }


def test_counters_wrap_around() -> None:
    before = {"a": EnergyCounter(900_000, 1_000_000), "b": EnergyCounter(100_000, 1_000_000)}
    after = {"a": EnergyCounter(200_000, 1_000_000), "b": EnergyCounter(350_000, 1_000_000)}
    assert joules_between(before, after) == pytest.approx(0.3 + 0.25)


def test_nothing_to_read(tmp_path: Path) -> None:
    assert read_energy(tmp_path) == {}
    assert joules_between({}, {}) is None
    # What only the superuser may read looks as if it were not there.
    zone(tmp_path, "0", "package-0", "")
    assert read_energy(tmp_path) == {}
    assert joules_between({"a": EnergyCounter(1, 2)}, {"b": EnergyCounter(1, 2)}) is None
