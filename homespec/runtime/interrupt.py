"""Ctrl-C during a decode.

Python runs signal handlers between bytecodes, and the main thread may be inside llama.cpp for seconds. So
the C-level handler writes a byte into a pipe (`signal.set_wakeup_fd`), and a small thread that waits on the
pipe sets the abort flag, which llama.cpp reads between two nodes of its graph.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from homespec.runtime.binding import AbortFlag


@dataclass(slots=True)
class Presses:
    """The signals that came, in order."""

    signals: list[int] = field(default_factory=list)

    @property
    def to_leave(self) -> bool:
        """Whether more than the reply is to end: Ctrl-C twice, or SIGTERM."""
        return len(self.signals) > 1 or signal.SIGTERM in self.signals


@contextlib.contextmanager
def abort_on_interrupt(flag: AbortFlag, *, patience: int = 1) -> Iterator[Presses]:
    """While active, Ctrl-C (SIGINT) or SIGTERM sets the flag; one more than `patience` kills the process.

    To be entered on the main thread. The flag is cleared at the beginning and by no request until the end,
    so that no press is lost, wherever it comes.
    """
    flag.clear()
    presses = Presses()
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)

    def watch() -> None:
        while number := os.read(read_end, 1):
            if number[0] in (signal.SIGINT, signal.SIGTERM):
                flag.set()

    def handle(number: int, _frame: object) -> None:
        flag.set()
        presses.signals.append(number)
        if len(presses.signals) >= patience:
            # One more press means now: the default action ends the process without waiting for Python.
            signal.signal(number, signal.SIG_DFL)

    watcher = threading.Thread(target=watch, name="homespec-interrupt", daemon=True)
    watcher.start()
    previous_fd = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield presses
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(previous_fd)
        os.close(write_end)
        watcher.join()
        os.close(read_end)
