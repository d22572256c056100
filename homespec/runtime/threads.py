"""How many threads llama.cpp gets: the fast physical cores that this process may use.

All threads of a decode wait for the slowest at every operator, so slow cores and second hardware threads
usually cost more than they give (requirements: on an RK3588 all eight cores are slower than the four fast
ones), and a thread beyond the control group's quota stops all of them until the next period. Where that is
not sure, calibration measures the candidates.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from homespec.runtime.cgroups import control_groups, read_integer, read_text

_CPUS = "sys/devices/system/cpu"
# cpu_capacity is work per second: a core of three quarters of the best one's still helps. The highest
# clock says less; cores of one kind differ by up to 7% (favoured cores), kinds by 19% and more.
_LEAST_CAPACITY = 0.75
_LEAST_FREQUENCY = 0.9
_LEAST_TO_SPARE_ONE = 3


@dataclass(frozen=True, slots=True)
class ThreadChoice:
    """A number of threads and, in one sentence for people, why."""

    num_threads: int
    reason: str


def choose_threads(root: Path = Path("/"), affinity: Iterable[int] | None = None) -> ThreadChoice:
    """Counts the physical performance cores that this process may use.

    Args:
        root: of the file tree that holds /proc and /sys.
        affinity: CPU numbers that the process may run on; None asks the operating system.
    """
    cpus = _usable_cpus(root, affinity)
    parts = [
        f"{cpus.num_fast_cores} of {cpus.num_cores} cores are performance cores"
        if cpus.num_fast_cores < cpus.num_cores
        else f"{cpus.num_cores} {'core' if cpus.num_cores == 1 else 'cores of one kind'}"
    ]
    if cpus.num_cores < cpus.num_hardware_threads:
        parts.append(f"{cpus.num_hardware_threads} hardware threads count once per core")
    if cpus.quota is not None and cpus.quota < cpus.num_hardware_threads:
        parts.append(f"the control group allows {cpus.quota:g} CPUs")
    return ThreadChoice(cpus.within_quota(cpus.num_fast_cores), "; ".join(parts) + ".")


def thread_candidates(root: Path = Path("/"), affinity: Iterable[int] | None = None) -> tuple[int, ...]:
    """Numbers of threads that are worth measuring, the choice of `choose_threads` first; at most four.

    The others are all physical cores, all hardware threads, and one fewer than the usual choice from 3 on,
    which leaves a core to other programs and needs hardly longer where memory is the limit.

    Args:
        root: see `choose_threads`.
        affinity: see `choose_threads`.
    """
    cpus = _usable_cpus(root, affinity)
    usual = cpus.within_quota(cpus.num_fast_cores)
    fewer = usual - 1 if usual >= _LEAST_TO_SPARE_ONE else usual
    more = (cpus.within_quota(cpus.num_cores), cpus.within_quota(cpus.num_hardware_threads))
    return tuple(dict.fromkeys((usual, fewer, *more)))


def parse_cpu_list(text: str) -> frozenset[int]:
    """Reads the kernel's list format, such as `0-3,8`."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


@dataclass(frozen=True, slots=True)
class _UsableCpus:
    """What this process may run on; `quota` is in CPUs' worth of time, None if unlimited."""

    num_hardware_threads: int
    num_cores: int
    num_fast_cores: int
    quota: float | None

    def within_quota(self, num_threads: int) -> int:
        return max(1, num_threads if self.quota is None else min(num_threads, int(self.quota)))


def _usable_cpus(root: Path, affinity: Iterable[int] | None) -> _UsableCpus:
    cpus = _allowed_cpus(root, affinity)
    cores = _one_cpu_per_core(root, cpus)
    return _UsableCpus(len(cpus), len(cores), len(_fast_cores(root, cores)), _cpu_quota(root))


def _allowed_cpus(root: Path, affinity: Iterable[int] | None) -> list[int]:
    if affinity is not None:
        cpus = frozenset(affinity)
    elif hasattr(os, "sched_getaffinity"):
        cpus = frozenset(os.sched_getaffinity(0))
    else:
        cpus = frozenset(range(os.cpu_count() or 1))
    for group in control_groups("cpuset", root):
        names = ("cpuset.cpus.effective",) if group.version == 2 else ("cpuset.effective_cpus", "cpuset.cpus")
        for name in names:
            # A set that shares nothing with the affinity is of another namespace's numbering: no limit.
            in_set = cpus & parse_cpu_list(read_text(group.directory / name) or "")
            cpus = in_set or cpus
    return sorted(cpus)


def _one_cpu_per_core(root: Path, cpus: list[int]) -> list[int]:
    cores: dict[frozenset[int], int] = {}
    for cpu in cpus:
        topology = root / _CPUS / f"cpu{cpu}" / "topology"
        # core_cpus_list is the newer name of thread_siblings_list (kernel 5.3).
        siblings = read_text(topology / "core_cpus_list") or read_text(topology / "thread_siblings_list")
        cores.setdefault(parse_cpu_list(siblings) if siblings else frozenset({cpu}), cpu)
    return list(cores.values())


def _fast_cores(root: Path, cores: list[int]) -> list[int]:
    capacities = _per_core(root, cores, "cpu_capacity")
    # Equal capacities do not prove equal cores: x86 kernels report 1024 for all while SMT is on.
    if len(set(capacities.values())) > 1:
        return _at_least(capacities, _LEAST_CAPACITY)
    frequencies = _per_core(root, cores, "cpufreq/cpuinfo_max_freq")
    return _at_least(frequencies, _LEAST_FREQUENCY) if frequencies else cores


def _per_core(root: Path, cores: list[int], name: str) -> dict[int, int]:
    """The value of each core; empty unless every core has one."""
    values = {core: read_integer(root / _CPUS / f"cpu{core}" / name) for core in cores}
    known = {core: value for core, value in values.items() if value}
    return known if len(known) == len(cores) else {}


def _at_least(values: Mapping[int, int], fraction: float) -> list[int]:
    best = max(values.values())
    return [core for core, value in values.items() if value >= fraction * best]


def _cpu_quota(root: Path) -> float | None:
    """CPUs' worth of time per period, the smallest of this group's and those above; None is unlimited."""
    quotas: list[float] = []
    for group in control_groups("cpu", root):
        if group.version == 2:
            fields = (read_text(group.directory / "cpu.max") or "max").split()
            quota = int(fields[0]) if fields[0].isdigit() else None
            period = int(fields[1]) if len(fields) > 1 else 100_000
        else:
            quota = read_integer(group.directory / "cpu.cfs_quota_us")
            period = read_integer(group.directory / "cpu.cfs_period_us") or 100_000
        if quota is not None and quota > 0 and period > 0:
            quotas.append(quota / period)
    return min(quotas, default=None)
