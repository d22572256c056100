from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from homespec.engine.watchdog import Watchdog


def alarms(faults_per_step: Sequence[int], pressure: float | None = None) -> list[bool]:
    """Whether each step raises an alarm, at one second a step."""
    totals: Iterator[int] = iter([0, *accumulate(faults_per_step)])
    seconds = iter(range(1000))
    watchdog = Watchdog(lambda: next(totals), lambda: pressure, lambda: float(next(seconds)))
    return [watchdog.alarm() is not None for _ in faults_per_step]


def test_a_cold_start_is_no_alarm() -> None:
    assert not any(alarms([5000, 900, 40, *[0] * 30]))


def test_a_fault_now_and_then_is_no_alarm() -> None:
    assert not any(alarms([0, 0, 0, 60] * 12))


def test_steady_faults_are_an_alarm() -> None:
    found = alarms([0, 0, *[30] * 20])
    assert found.index(True) == 17


def test_pressure_alone_is_somebody_elses() -> None:
    assert not any(alarms([0] * 30, pressure=80.0))


def test_pressure_with_faults_of_our_own_is_an_alarm() -> None:
    assert any(alarms([3] * 6, pressure=80.0))
    assert not any(alarms([3] * 6, pressure=5.0))
    assert not any(alarms([3] * 6, pressure=None))
