"""Notices while decoding that memory runs short after all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic

from homespec.telemetry.machine import memory_pressure_percent
from homespec.telemetry.process import count_major_faults

# The first steps after opening read weights from disk for the first time; only what goes on is paging.
_WINDOW_STEPS = 16
# A step that must read weights back touches many pages; a few faults may be anybody's.
_FAULTS_PER_STEP = 8
_PRESSURE_PERCENT = 20.0
_PRESSURE_SECONDS = 2.0


class Watchdog:
    """Asked after every step whether the drafter's memory is needed elsewhere.

    It counts major page faults of this process (getrusage), and reads the memory pressure of the machine
    (/proc/pressure/memory) where the kernel records it.
    """

    def __init__(
        self,
        count_faults: Callable[[], int] = count_major_faults,
        read_pressure: Callable[[], float | None] = memory_pressure_percent,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._count_faults = count_faults
        self._read_pressure = read_pressure
        self._clock = clock
        self._last_faults = count_faults()
        self._recent: deque[int] = deque(maxlen=_WINDOW_STEPS)
        self._next_look = clock() + _PRESSURE_SECONDS

    def alarm(self) -> str | None:
        """Why the drafter should go, in one sentence; None while all is well."""
        faults = self._count_faults()
        self._recent.append(faults - self._last_faults)
        self._last_faults = faults
        if len(self._recent) == _WINDOW_STEPS and min(self._recent) >= _FAULTS_PER_STEP:
            return (
                f"Each of the last {_WINDOW_STEPS} steps had to read from disk "
                f"({sum(self._recent):,} major page faults)."
            )
        now = self._clock()
        if now >= self._next_look:
            self._next_look = now + _PRESSURE_SECONDS
            pressure = self._read_pressure()
            # Others may cause pressure without any harm to us; with page faults of our own it concerns us.
            if pressure is not None and pressure >= _PRESSURE_PERCENT and sum(self._recent) > 0:
                return f"Programs waited for memory during {pressure:.0f}% of the last 10 seconds."
        return None
