"""What the terminal is like, and where text for the user goes."""

from __future__ import annotations

import array
import fcntl
import logging
import signal
import sys
import termios
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TextIO

from rich.console import Console
from rich.text import Text

from homespec.errors import HomespecError

# A wider text is hard to read.
_MOST_COLUMNS = 100
# Characters that terminals take as commands; a model must not send any. Tab and line feed stay.
_CONTROLS = {code: "" for code in (*range(9), *range(11, 32), *range(127, 160))}


def harmless(text: str) -> str:
    """The text without control characters that a terminal would obey."""
    return text.translate(_CONTROLS)


@dataclass
class Terminal:
    """Standard output as replies see it, and the place for everything else.

    Attributes:
        answers: standard output.
        notes: where notices go: standard output too if that is a terminal, else standard error.
        can_redraw: what was written may be drawn over.
        is_interactive: somebody can be asked.
        is_plain: no colours, no styles, nothing drawn over, whatever it is connected to.
    """

    answers: Console
    notes: Console
    can_redraw: bool
    is_interactive: bool
    is_plain: bool
    _held: list[str] | None = field(default=None, init=False)

    @property
    def width(self) -> int:
        """Columns that text may take, now."""
        return max(1, min(self.columns, _MOST_COLUMNS))

    @property
    def columns(self) -> int:
        """Columns of the terminal, now."""
        return self.answers.size.width

    @property
    def height(self) -> int:
        """Rows of the terminal, now."""
        return self.answers.size.height

    def write(self, text: str) -> None:
        """Sends a reply's text as it is."""
        self.answers.file.write(text)
        self.answers.file.flush()

    def note(self, text: str | Text, style: str = "") -> None:
        """Tells something that is no part of a reply; waits while a reply is being drawn."""
        if self._held is not None:
            self._held.append(str(text))
            return
        self.notes.print(text, style=style, highlight=False, markup=False, overflow="fold")

    def quiet(self, text: str) -> None:
        """A note that is only for those who want it."""
        self.note(text, "dim")

    def warn(self, text: str) -> None:
        """A note that should not be overlooked."""
        self.note(text, "yellow")

    def ask(self, question: str) -> str:
        """The user's answer; empty for Ctrl-C and Ctrl-D."""
        self.notes.print(question, end="", markup=False, highlight=False)
        previous = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return sys.stdin.readline()
        except KeyboardInterrupt:
            return ""
        finally:
            signal.signal(signal.SIGINT, previous)

    def error(self, error: HomespecError) -> None:
        """One sentence, and what to do."""
        self.note(Text.assemble(("Error: ", "bold red"), harmless(error.message)))
        if error.hint:
            self.note(Text.assemble(("Hint: ", "bold"), harmless(error.hint)))

    def legend(self, styles: Iterable[tuple[str, str]]) -> None:
        """Says how text is tinted by its origin."""
        names = [part for name, style in styles for part in ((name, style), " ")]
        self.note(
            Text.assemble("Accepted from: ", *names, "| not tinted: the target's own. /spec show ends it.")
        )

    def table(self, rows: Iterable[tuple[str, str]]) -> None:
        """Pairs of a name and a value or explanation; below each other where the two have no room."""
        rows = list(rows)
        indent = min(max((len(name) for name, _ in rows), default=0) + 2, 30)
        for name, value in rows:
            if self.width - indent < 24 or len(name) + 2 > indent:
                self.note(Text.assemble((name, "bold")))
                self._wrapped(value, "", 2)
            else:
                self._wrapped(value, name.ljust(indent), indent)

    def _wrapped(self, value: str, first: str, indent: int) -> None:
        lines = Text(value).wrap(self.notes, max(1, self.width - indent), overflow="fold") or [Text()]
        for number, line in enumerate(lines):
            start = (first or " " * indent) if number == 0 else " " * indent
            self.note(Text.assemble((start, "bold"), line))

    def hold_notes(self) -> None:
        """Keeps notes back until `release_notes`: something is being drawn that they would tear apart."""
        self._held = []

    def release_notes(self) -> None:
        """Shows what was held back."""
        held, self._held = self._held or [], None
        for text in held:
            self.note(text)


def open_terminal(environment: Mapping[str, str], *, plain: bool) -> Terminal:
    """The terminal of this process.

    Args:
        environment: `TERM=dumb` and `NO_COLOR` are heeded.
        plain: draw nothing over, and use no colours or styles: for screen readers and logs.
    """
    plain = plain or environment.get("TERM", "dumb") in ("dumb", "unknown", "")
    answers, errors = _console(sys.stdout, plain=plain), _console(sys.stderr, plain=plain)
    on_terminal = sys.stdout.isatty()
    return Terminal(
        answers=answers,
        notes=answers if on_terminal else errors,
        can_redraw=on_terminal and not plain,
        is_interactive=sys.stdin.isatty(),
        is_plain=plain,
    )


def _console(file: TextIO, *, plain: bool) -> Console:
    if not plain and file.isatty():
        return Console(file=file, soft_wrap=False)
    # Without a terminal rich would take 80 columns; lines for programs are not to be broken at all.
    width = None if file.isatty() else 1_000_000
    return Console(file=file, color_system=None, force_terminal=False, width=width, no_color=True)


def typed_ahead_bytes() -> int:
    """Bytes of whole lines that wait on standard input: each of them moved the cursor when it was echoed."""
    if not sys.stdin.isatty():
        return 0
    waiting = array.array("i", [0])
    try:
        fcntl.ioctl(sys.stdin.fileno(), termios.FIONREAD, waiting)
    except OSError:
        return 0
    return waiting[0]


def is_light(environment: Mapping[str, str]) -> bool:
    """Whether the terminal says that its background is light."""
    return environment.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")


class NoteHandler(logging.Handler):
    """Shows log records as notes, so that they do not tear a reply apart."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self._terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        self._terminal.note(harmless(self.format(record)))
