"""The number of threads on recorded machines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from homespec.runtime.threads import ThreadChoice, choose_threads, parse_cpu_list, thread_candidates
from tests.support import machine_trees as trees


@pytest.mark.parametrize(
    ("build", "num_cpus", "expected"),
    [
        (trees.pi4, 4, ThreadChoice(4, "4 cores of one kind.")),
        (trees.pi5, 4, ThreadChoice(4, "4 cores of one kind.")),
        (trees.rk3588, 8, ThreadChoice(4, "4 of 8 cores are performance cores.")),
        (
            trees.intel_hybrid,
            16,
            ThreadChoice(4, "4 of 12 cores are performance cores; 16 hardware threads count once per core."),
        ),
        (
            trees.smt_mini_pc,
            12,
            ThreadChoice(6, "6 cores of one kind; 12 hardware threads count once per core."),
        ),
        (
            trees.docker,
            12,
            ThreadChoice(
                2,
                "6 cores of one kind; 12 hardware threads count once per core; "
                "the control group allows 2.5 CPUs.",
            ),
        ),
        (trees.docker_v1, 12, ThreadChoice(2, "4 cores of one kind; the control group allows 2.5 CPUs.")),
        (trees.lxc, 16, ThreadChoice(2, "2 cores of one kind; 4 hardware threads count once per core.")),
    ],
)
def test_recorded_machines(
    tmp_path: Path, build: Callable[[Path], Path], num_cpus: int, expected: ThreadChoice
) -> None:
    assert choose_threads(build(tmp_path), affinity=range(num_cpus)) == expected


@pytest.mark.parametrize(
    ("build", "num_cpus", "expected"),
    [
        (trees.pi4, 4, (4, 3)),
        (trees.rk3588, 8, (4, 3, 8)),
        (trees.intel_hybrid, 16, (4, 3, 12, 16)),
        (trees.smt_mini_pc, 12, (6, 5, 12)),
        (trees.docker, 12, (2,)),
        (trees.docker_v1, 12, (2,)),
        (trees.lxc, 16, (2, 4)),
    ],
)
def test_candidates_on_recorded_machines(
    tmp_path: Path, build: Callable[[Path], Path], num_cpus: int, expected: tuple[int, ...]
) -> None:
    root = build(tmp_path)
    assert thread_candidates(root, range(num_cpus)) == expected
    assert expected[0] == choose_threads(root, range(num_cpus)).num_threads


@pytest.mark.parametrize(
    ("quota", "expected"), [(0.5, (1,)), (1.0, (1,)), (3.9, (3, 2)), (6.0, (6, 5)), (9.0, (6, 5, 9))]
)
def test_candidates_stay_within_the_quota(tmp_path: Path, quota: float, expected: tuple[int, ...]) -> None:
    trees.smt_mini_pc(tmp_path)
    trees.add_cgroup2(tmp_path, {"": {"cpu.max": f"{int(quota * 100_000)} 100000"}}, own="/")
    assert thread_candidates(tmp_path, range(12)) == expected
    # Another quota makes other candidates, so it must show in what calibrations depend on.
    assert f"allows {quota:g} CPUs" in choose_threads(tmp_path, range(12)).reason


def test_one_core_and_two_cores_leave_no_choice(tmp_path: Path) -> None:
    assert thread_candidates(tmp_path, range(1)) == (1,)
    assert thread_candidates(tmp_path, range(2)) == (2,)
    assert thread_candidates(tmp_path, range(3)) == (3, 2)


def test_affinity_decides_before_the_kind_of_core(tmp_path: Path) -> None:
    assert choose_threads(trees.rk3588(tmp_path), affinity={0, 1, 2}).num_threads == 3
    assert choose_threads(tmp_path, affinity={0, 1, 5}).num_threads == 1
    assert choose_threads(tmp_path, affinity={3}) == ThreadChoice(1, "1 core.")


def test_two_threads_of_one_core_are_one_core(tmp_path: Path) -> None:
    assert choose_threads(trees.smt_mini_pc(tmp_path), affinity={1, 7}).num_threads == 1


def test_middle_cores_help_and_little_ones_do_not(tmp_path: Path) -> None:
    capacities = [325] * 4 + [871] * 3 + [1024]
    for cpu, capacity in enumerate(capacities):
        trees.add_cpu(tmp_path, cpu, siblings=str(cpu), capacity=capacity)
    assert choose_threads(tmp_path, affinity=range(8)).num_threads == 4


def test_without_capacity_the_clock_tells(tmp_path: Path) -> None:
    for cpu in range(8):
        trees.add_cpu(tmp_path, cpu, siblings=str(cpu), max_khz=1_800_000 if cpu < 4 else 2_208_000)
    assert choose_threads(tmp_path, affinity=range(8)).num_threads == 4


def test_a_core_without_a_known_clock_disables_the_comparison(tmp_path: Path) -> None:
    for cpu in range(4):
        trees.add_cpu(
            tmp_path, cpu, siblings=str(cpu), max_khz=None if cpu == 0 else 1_000_000 * (1 + cpu % 2)
        )
    assert choose_threads(tmp_path, affinity=range(4)).num_threads == 4


@pytest.mark.parametrize(("quota", "expected"), [("50000 100000", 1), ("100000", 1), ("399999 100000", 3)])
def test_quotas_round_down_but_never_to_nothing(tmp_path: Path, quota: str, expected: int) -> None:
    trees.add_cgroup2(tmp_path, {"": {"cpu.max": quota}}, own="/")
    assert choose_threads(tmp_path, affinity=range(4)).num_threads == expected


def test_the_smallest_quota_on_the_way_up_counts(tmp_path: Path) -> None:
    groups = {"a": {"cpu.max": "200000 100000"}, "a/b": {"cpu.max": "max 100000"}}
    trees.add_cgroup2(tmp_path, groups, own="/a/b")
    assert choose_threads(tmp_path, affinity=range(4)).num_threads == 2


def test_an_empty_tree_still_gives_an_answer(tmp_path: Path) -> None:
    assert choose_threads(tmp_path, affinity=range(3)).num_threads == 3
    assert choose_threads(tmp_path, affinity=()).num_threads == 1


def test_this_machine_gives_an_answer() -> None:
    choice = choose_threads()
    assert choice.num_threads >= 1
    assert choice.reason.endswith(".")


def test_cpu_lists() -> None:
    assert parse_cpu_list("0-3,8,10-11\n") == {0, 1, 2, 3, 8, 10, 11}
    assert parse_cpu_list("") == frozenset()
