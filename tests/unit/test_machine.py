"""Memory facts of recorded machines."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from homespec.runtime.cpuinfo import cpu_features
from homespec.runtime.residency import resident_bytes
from homespec.telemetry.machine import (
    imagined_memory,
    memory_pressure_percent,
    read_memory,
)
from tests.support import machine_trees as trees
from tests.support.machine_trees import GIB, MIB


@pytest.mark.parametrize(
    ("build", "source", "available_bytes"),
    [
        (trees.pi4, "the machine's memory", 3310 * MIB),
        (trees.pi5, "the machine's memory", 7260 * MIB),
        (trees.pi5_2gb_zram, "the machine's memory", 1480 * MIB),
        (trees.rk3588, "the machine's memory", 15_100 * MIB),
        (trees.smt_mini_pc, "the machine's memory", 12_800 * MIB),
        # 2 GiB less 900 MiB in use, of which 700 MiB are cached pages that nobody needs.
        (trees.docker, "memory.max of the control group cgroup", 2048 * MIB - 200 * MIB),
        (trees.docker_v1, "memory.limit_in_bytes of the control group memory", 2048 * MIB - 200 * MIB),
        # The slice's limit binds; only the service's own 150 MiB of idle cache count.
        (trees.systemd_service, "memory.max of the control group home.slice", 2500 * MIB - 850 * MIB),
        (trees.lxc, "the machine's memory", 3480 * MIB),
    ],
)
def test_the_tightest_bound(
    tmp_path: Path, build: Callable[[Path], Path], source: str, available_bytes: int
) -> None:
    bound = read_memory(build(tmp_path)).tightest_bound()
    assert (bound.source, bound.available_bytes) == (source, available_bytes)


@pytest.mark.parametrize("build", trees.ALL_MACHINES.values(), ids=trees.ALL_MACHINES.keys())
def test_headroom_is_below_what_is_available(tmp_path: Path, build: Callable[[Path], Path]) -> None:
    memory = read_memory(build(tmp_path))
    assert 0 < memory.headroom_bytes() < memory.tightest_bound().available_bytes
    assert memory.headroom_bytes(0) == min(bound.available_bytes for bound in memory.bounds)
    assert memory.headroom_bytes(1 << 50) == 0


def test_the_margin_is_a_tenth_but_at_least_300_mb() -> None:
    assert imagined_memory(8 * GIB).headroom_bytes() == 8 * GIB - int(0.8 * GIB)
    assert imagined_memory(GIB).headroom_bytes() == GIB - 300_000_000
    assert imagined_memory(100 * MIB).headroom_bytes() == 0


def test_swap_and_zram_are_shown_and_add_nothing(tmp_path: Path) -> None:
    memory = read_memory(trees.pi5_2gb_zram(tmp_path))
    assert memory.zram_bytes == memory.swap_bytes == 2016 * MIB
    assert memory.swap_free_bytes == 1900 * MIB
    assert memory.headroom_bytes(0) == 1480 * MIB
    on_disk = read_memory(trees.smt_mini_pc(tmp_path / "pc"))
    assert (on_disk.zram_bytes, on_disk.swap_bytes) == (0, 8192 * MIB)


def test_memory_high_is_a_limit(tmp_path: Path) -> None:
    trees.add_memory(tmp_path, total=8 * GIB, available=7 * GIB, free=6 * GIB)
    files = {"memory.max": 4 * GIB, "memory.high": 2 * GIB, "memory.current": GIB, "memory.stat": ""}
    trees.add_cgroup2(tmp_path, {"": files}, own="/")
    assert read_memory(tmp_path).headroom_bytes(0) == GIB


def test_unlimited_groups_add_no_bound(tmp_path: Path) -> None:
    trees.add_memory(tmp_path, total=8 * GIB, available=7 * GIB, free=6 * GIB)
    files = {"memory.limit_in_bytes": 9_223_372_036_854_771_712, "memory.usage_in_bytes": GIB}
    trees.add_cgroup1(tmp_path, {"memory": files}, own="/")
    assert len(read_memory(tmp_path).bounds) == 1


def test_a_group_outside_the_mounted_part_is_read_at_its_top(tmp_path: Path) -> None:
    trees.add_memory(tmp_path, total=8 * GIB, available=7 * GIB, free=6 * GIB)
    files = {"memory.max": GIB, "memory.current": 0}
    trees.add_cgroup2(tmp_path, {"": files}, own="/../elsewhere")
    assert read_memory(tmp_path).headroom_bytes(0) == GIB


def test_an_empty_tree_gives_no_headroom(tmp_path: Path) -> None:
    assert read_memory(tmp_path).headroom_bytes() == 0
    assert memory_pressure_percent(tmp_path) is None
    assert cpu_features(tmp_path) == frozenset()


def test_pressure_and_cpu_features(tmp_path: Path) -> None:
    pressure = (
        "some avg10=12.50 avg60=3.00 avg300=0.10 total=99\nfull avg10=1.00 avg60=0.00 avg300=0.00 total=9"
    )
    trees.write(tmp_path, "proc/pressure/memory", pressure)
    assert memory_pressure_percent(tmp_path) == 12.5
    trees.write(tmp_path, "proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd asimddp\n\nprocessor\t: 1")
    assert cpu_features(tmp_path) == {"fp", "asimd", "asimddp"}


def test_this_machine_has_headroom() -> None:
    memory = read_memory()
    assert memory.bounds[0].limit_bytes > 0
    assert memory.headroom_bytes(0) > 0


def test_residency_counts_pages(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(100_000))
    # What was just written is in the page cache.
    assert resident_bytes(path) in (None, 100_000)
    with path.open("rb") as file:
        os.fsync(file.fileno())
    assert resident_bytes(tmp_path / "absent") is None
    (tmp_path / "empty").touch()
    assert resident_bytes(tmp_path / "empty") in (None, 0)
