"""Terminals for tests: a screen in memory, and a process on a pseudo-terminal."""

from __future__ import annotations

import io
import os
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pexpect
import pyte
from rich.console import Console

from homespec.chat.terminal import Terminal


class Screen:
    """A terminal's screen with its scrollback, fed with bytes or text."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self._screen = pyte.HistoryScreen(columns, rows, history=5000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)

    def feed(self, data: bytes) -> None:
        self._stream.feed(data)

    def write(self, text: str) -> None:
        # A terminal's driver makes a carriage return of each line feed.
        self.feed(text.replace("\n", "\r\n").encode())

    def resize(self, columns: int, rows: int) -> None:
        self._screen.resize(rows, columns)

    @property
    def cursor(self) -> tuple[int, int]:
        return self._screen.cursor.y, self._screen.cursor.x

    @property
    def cursor_line(self) -> str:
        return str(self._screen.display[self._screen.cursor.y]).rstrip()

    @property
    def lines(self) -> list[str]:
        """Scrollback and screen, without the empty end. Wide characters stand once."""
        columns = self._screen.columns
        past = ["".join(row[x].data for x in range(columns)) for row in self._screen.history.top]
        lines = [line.rstrip() for line in (*past, *self._screen.display)]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


class _Output(io.StringIO):
    """What a terminal in memory gets is drawn at once."""

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self._screen = screen

    def write(self, text: str) -> int:
        self._screen.write(text)
        return len(text)

    def isatty(self) -> bool:
        return True


def memory_terminal(columns: int = 80, rows: int = 24, *, colour: bool = True) -> tuple[Terminal, Screen]:
    """A terminal that draws into a screen in memory."""
    screen = Screen(columns, rows)
    console = Console(
        file=_Output(screen), width=columns, height=rows, force_terminal=True,
        color_system="standard" if colour else None, no_color=not colour, legacy_windows=False,
    )  # fmt: skip
    return Terminal(console, console, can_redraw=True, is_interactive=True, is_plain=False), screen


class Process:
    """`homespec chat` on a pseudo-terminal.

    Attributes:
        screen: what it has drawn.
        raw: all that it wrote.
        local_flags: of the terminal, as the process left them.
    """

    def __init__(
        self, *arguments: str, columns: int = 80, rows: int = 24, environment: Mapping[str, str] | None = None
    ) -> None:
        self.screen = Screen(columns, rows)
        self.raw = b""
        self.local_flags = 0
        self.child = pexpect.spawn(
            sys.executable,
            ["-m", "homespec", "chat", *arguments],
            env={**os.environ, "TERM": "xterm-256color", **(environment or {})},
            dimensions=(rows, columns),
            cwd=str(Path(__file__).parents[2]),
        )

    def pump(self, seconds: float = 0.2) -> bool:
        """Draws what the process writes; False once it has ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                data = self.child.read_nonblocking(65536, 0.05)
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                return False
            self.raw += data
            self.screen.feed(data)
            if b"\x1b[6n" in data:
                row, column = self.screen.cursor
                self.child.send(b"\x1b[%d;%dR" % (row + 1, column + 1))
        return True

    def wait(self, ready: Callable[[Screen], bool], seconds: float = 120) -> None:
        """Until the screen is as wanted."""
        end = time.monotonic() + seconds
        while not ready(self.screen):
            alive = self.pump(0.1)
            assert alive, f"it has ended:\n{self.screen.text}"
            assert time.monotonic() < end, f"still not:\n{self.screen.text}"

    def wait_for(self, text: str, seconds: float = 120) -> None:
        self.wait(lambda screen: text in screen.text, seconds)

    def wait_for_prompt(self) -> None:
        self.wait(lambda screen: screen.cursor_line.endswith(" >"))

    def wait_for_end(self, seconds: float = 30) -> int:
        """The exit code, or minus the signal."""
        end = time.monotonic() + seconds
        while self.pump(0.1):
            assert time.monotonic() < end, self.screen.text
        self.local_flags = termios.tcgetattr(self.child.child_fd)[3]
        self.child.close()
        status = self.child.exitstatus
        return -self.child.signalstatus if status is None else int(status)

    def send(self, data: str | bytes) -> None:
        self.child.send(data)

    def say(self, line: str) -> None:
        """Types a line and Enter."""
        self.send(line)
        self.pump(0.2)
        self.send("\r")
        self.pump(0.2)

    def ask(self, line: str) -> str:
        """Types a line, waits for the next prompt, and returns what was shown meanwhile."""
        before = len(self.screen.lines)
        self.say(line)
        self.wait_for_prompt()
        return "\n".join(self.screen.lines[max(0, before - 1) :])

    def undo(self) -> None:
        """Takes the last turn back, and empties the line that offers its message again."""
        self.say("/undo")
        self.wait(lambda screen: "Taken back" in "".join(screen.lines[-2:-1]))
        self.send("\x03")
        self.pump(0.3)

    def resize(self, columns: int, rows: int = 24) -> None:
        self.child.setwinsize(rows, columns)
        self.screen.resize(columns, rows)
