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

from homespec.runtime.binding import AbortFlag


@contextlib.contextmanager
def abort_on_interrupt(flag: AbortFlag) -> Iterator[None]:
    """While active, the first Ctrl-C (SIGINT) or SIGTERM sets the flag; a second one kills the process.

    To be entered on the main thread. The flag is left as it is: whoever owns it clears it.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)

    def watch() -> None:
        while number := os.read(read_end, 1):
            if number[0] in (signal.SIGINT, signal.SIGTERM):
                flag.set()

    def handle(number: int, _frame: object) -> None:
        flag.set()
        # A second press means now: the default action ends the process without waiting for Python.
        signal.signal(number, signal.SIG_DFL)

    watcher = threading.Thread(target=watch, name="homespec-interrupt", daemon=True)
    watcher.start()
    previous_fd = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(previous_fd)
        os.close(write_end)
        watcher.join()
        os.close(read_end)
