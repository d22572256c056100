"""How far a bench is, on stderr."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from homespec.benchmark.settings import Show
from homespec.units import format_seconds

_NOTE_SECONDS, _DRAW_SECONDS, _GUESS_SECONDS = 60.0, 0.25, 2.0


@contextlib.contextmanager
def shown_progress() -> Iterator[Show]:
    """A bar on a terminal; elsewhere a line now and then.

    It is drawn when something is told, between the replies, and so takes no time from any of them.
    """
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _Notes(console).show
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bars:
        task, clock = bars.add_task("", total=1.0, left=""), _Clock()

        drawn, shown = 0.0, ""

        def show(what: str, share: float) -> None:
            nonlocal drawn, shown
            if what == shown and monotonic() - drawn < _DRAW_SECONDS:
                return
            drawn, shown = monotonic(), what
            bars.update(task, description=what, completed=share, left=clock.time_left(share), refresh=True)

        yield show


class _Clock:
    """Estimates the time left from the share that is done; begins anew when that falls."""

    def __init__(self) -> None:
        self._start, self._first, self._last = monotonic(), 0.0, 0.0

    def time_left(self, share: float) -> str:
        """For people; nothing where little is known."""
        now = monotonic()
        if share < self._last or share == 0.0:
            self._start, self._first = now, share
        self._last = share
        done, seconds = share - self._first, now - self._start
        if done <= 0.0 or share >= 1.0 or seconds < _GUESS_SECONDS:
            return ""
        return f"about {format_seconds(seconds / done * (1.0 - share))} left"


class _Notes:
    """Progress as lines, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console, self._clock = console, _Clock()
        self._phase, self._noted = "", 0.0

    def show(self, what: str, share: float) -> None:
        left, now = self._clock.time_left(share), monotonic()
        phase = what.partition(":")[0]
        if phase == self._phase and now - self._noted < _NOTE_SECONDS:
            return
        self._phase, self._noted = phase, now
        self._console.print(f"{share:4.0%} {what}{', ' if left else ''}{left}", soft_wrap=True)
