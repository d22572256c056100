"""How the text of a reply gets onto the terminal while it is generated."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from rich.style import Style
from rich.text import Text

from homespec.chat.lines import Block, MarkdownLines, Prose, Row
from homespec.chat.region import Region
from homespec.chat.terminal import Terminal, harmless, is_light, typed_ahead_bytes

Clock = Callable[[], float]

# Redrawing gets this part of the time at most, however slow terminal, link and machine are ...
_DISPLAY_SHARE = 1 / 50
# ... and happens no more often than anyone could see.
_LEAST_INTERVAL_SECONDS = 0.05
_ORIGIN_STYLES = {"ngram": "green", "draft-model": "magenta"}
_OTHER_ORIGIN_STYLE = "blue"


class Writer(Protocol):
    """Shows one reply."""

    def progress(self, text: str) -> None:
        """Says what is being waited for; gone with the first text."""

    def write(self, text: str, *, thinking: bool = False, origin: str = "") -> None:
        """Shows the next text."""

    def finish(self) -> None:
        """Shows the rest and ends the line."""


class Pacer:
    """Keeps drawing to a small part of the time.

    Attributes:
        spent_seconds: on drawing, so far.
    """

    def __init__(self, clock: Clock = perf_counter) -> None:
        self._clock = clock
        self._next = 0.0
        self.spent_seconds = 0.0

    def run(self, draw: Callable[[], None], *, now: bool = False) -> None:
        """Draws if it is time to, or `now`."""
        start = self._clock()
        if start < self._next and not now:
            return
        draw()
        cost = self._clock() - start
        self.spent_seconds += cost
        self._next = start + max(_LEAST_INTERVAL_SECONDS, cost / _DISPLAY_SHARE)


class PlainWriter:
    """Text as it comes, nothing drawn over: for pipes, dumb terminals and screen readers."""

    def __init__(self, terminal: Terminal, *, show_thinking: bool, announce: bool) -> None:
        """Prepares a reply.

        Args:
            terminal: where to.
            show_thinking: as well.
            announce: say where thinking begins and ends, and what is waited for.
        """
        self._terminal = terminal
        self._show_thinking = show_thinking
        self._announce = announce
        self._thinking = False
        self._last = ""
        self.pacer = Pacer()

    def progress(self, text: str) -> None:
        """See `Writer`."""

    def write(self, text: str, *, thinking: bool = False, origin: str = "") -> None:
        """See `Writer`."""
        if thinking and not self._show_thinking:
            return
        if thinking != self._thinking:
            self._thinking = thinking
            self._put(("" if self._last in ("", "\n") else "\n") + self._heading(thinking))
        self._put(text)

    def _heading(self, thinking: bool) -> str:
        if not self._announce:
            return "\n" if self._last else ""
        return "[thinking]\n" if thinking else "[answer]\n"

    def _put(self, text: str) -> None:
        text = harmless(text) if self._announce else text
        if text:
            self.pacer.run(lambda: self._terminal.write(text), now=True)
            self._last = text[-1]

    def finish(self) -> None:
        """See `Writer`."""
        if self._last not in ("", "\n"):
            self._put("\n")


class TintedWriter(PlainWriter):
    """The text as it is, what a drafter proposed tinted."""

    def write(self, text: str, *, thinking: bool = False, origin: str = "") -> None:
        """See `Writer`."""
        self._last = text[-1:] or self._last
        style = Style.parse(origin_style(self._terminal, origin) if origin else "none")
        with self._terminal.answers.capture() as capture:
            self._terminal.answers.print(Text(harmless(text), style), end="", soft_wrap=True, highlight=False)
        self.pacer.run(lambda: self._terminal.write(capture.get()), now=True)


def origin_style(terminal: Terminal, origin: str) -> str:
    """How text from a drafter is tinted; underlined where there are no colours."""
    color = _ORIGIN_STYLES.get(origin, _OTHER_ORIGIN_STYLE)
    return f"underline {color}" if terminal.answers.no_color or not terminal.answers.color_system else color


class MarkdownWriter:
    """Markdown. Finished lines go into the scrollback at once; only the growing one is drawn over.

    Attributes:
        pacer: has the time that drawing took.
    """

    def __init__(
        self,
        terminal: Terminal,
        *,
        show_thinking: bool,
        code_theme: str,
        typed_ahead: Callable[[], int] = lambda: 0,
        clock: Clock = perf_counter,
    ) -> None:
        """Prepares a reply.

        Args:
            terminal: where to.
            show_thinking: as well; else only how much there is.
            code_theme: of rich.
            typed_ahead: bytes of lines that the user typed meanwhile.
            clock: for the pace.
        """
        self._terminal = terminal
        self._show_thinking = show_thinking
        self._typed_ahead = typed_ahead
        self._region = Region(terminal.write)
        self._markdown = MarkdownLines(code_theme)
        self._line = ""
        self._finished: list[tuple[bool, str | None]] = []
        self._num_drawn = self._skip = 0
        self._thinking = False
        self._num_thinking_words = 0
        self._last_was_blank = True
        self._seen = (terminal.columns, typed_ahead())
        self.pacer = Pacer(clock)

    def progress(self, text: str) -> None:
        """See `Writer`."""
        row = _dim(text).rows(self._terminal.answers, self._terminal.width)
        self.pacer.run(lambda: self._region.show(row[:1], self._terminal.columns))

    def write(self, text: str, *, thinking: bool = False, origin: str = "") -> None:
        """See `Writer`."""
        if thinking != self._thinking:
            self._end_section()
            self._thinking = thinking
        if thinking and not self._show_thinking:
            self._num_thinking_words += len(text.split())
        else:
            *finished, self._line = (self._line + harmless(text)).split("\n")
            self._finished += [(thinking, line) for line in finished]
        self.pacer.run(self._draw)

    def finish(self) -> None:
        """See `Writer`."""
        self._end_section()
        self.pacer.run(self._draw, now=True)

    def _end_section(self) -> None:
        """Ends the thinking, or the answer."""
        if self._line:
            self._finished.append((self._thinking, self._line))
        self._line = ""
        self._finished.append((self._thinking, None))

    def _draw(self) -> None:
        console, columns, width = self._terminal.answers, self._terminal.columns, self._terminal.width
        self._heed_disturbances(columns)
        done = [row for block in self._take_finished() for row in self._spaced(block.rows(console, width))]
        if done:
            self._region.commit(done)
        rows = [row for block in self._growing() for row in block.rows(console, width)]
        shown = last_rows(rows, columns, max(1, self._terminal.height - 1))
        self._region.show(shown, columns)
        # A table, and a line whose beginning is out of sight, have to be shown once more if rows move.
        whole = len(shown) == len(rows) and not self._markdown.in_table
        self._num_drawn = len(self._line) if whole else 0

    def _take_finished(self) -> list[Block]:
        finished, self._finished = self._finished, []
        blocks: list[Block] = []
        for thinking, line in finished:
            if line is None:
                blocks += self._section_end(thinking)
            elif thinking:
                blocks.append(_dim(line[self._skip :]))
            else:
                blocks += self._markdown.finish(line, self._skip)
            self._skip = 0
        return blocks

    def _section_end(self, thinking: bool) -> list[Block]:
        if not thinking:
            return self._markdown.end()
        hidden = _dim(f"(thought for {self._num_thinking_words} words; /think show)")
        return [*([] if self._show_thinking else [hidden]), _dim("")]

    def _growing(self) -> list[Block]:
        if self._thinking and not self._show_thinking:
            return [_dim(f"thinking ... {self._num_thinking_words} words")]
        if self._thinking:
            return [_dim(self._line[self._skip :])] if self._line[self._skip :] else []
        return self._markdown.growing(self._line, self._skip)

    def _heed_disturbances(self, columns: int) -> None:
        seen = columns, self._typed_ahead()
        if seen != self._seen and not self._region.is_empty:
            # Rows have moved. What is on the screen stays as it is, and its line goes on below.
            self._region.freeze()
            self._skip = self._num_drawn
        self._seen = seen

    def _spaced(self, rows: list[Row]) -> list[Row]:
        """Leaves out blank lines at the beginning and doubled ones."""
        kept = []
        for row in rows:
            blank = not row.ansi
            if not (blank and self._last_was_blank):
                kept.append(row)
            self._last_was_blank = blank
        return kept


def make_writer(terminal: Terminal, *, show_thinking: bool, tint: bool) -> PlainWriter | MarkdownWriter:
    """What suits the terminal.

    Args:
        terminal: where to.
        show_thinking: as well.
        tint: show what a drafter proposed; the text is then shown as it is.
    """
    if not terminal.can_redraw:
        announce = terminal.answers.file.isatty()
        return PlainWriter(terminal, show_thinking=show_thinking, announce=announce)
    if tint:
        return TintedWriter(terminal, show_thinking=True, announce=True)
    theme = "ansi_light" if is_light(os.environ) else "ansi_dark"
    return MarkdownWriter(
        terminal, show_thinking=show_thinking, code_theme=theme, typed_ahead=typed_ahead_bytes
    )


def last_rows(rows: list[Row], columns: int, room: int) -> list[Row]:
    """As many of the last rows as have room on the screen, one at least."""
    kept: list[Row] = []
    for row in reversed(rows):
        room -= max(1, -(-row.cells // columns))
        if room < 0:
            break
        kept.append(row)
    return kept[::-1] or [Row("...", 3)] if rows else []


def _dim(text: str) -> Prose:
    return Prose(Text(text, "dim"))
