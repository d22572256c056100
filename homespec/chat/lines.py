"""Markdown, line by line -> blocks that know how to lay themselves out.

Models write a paragraph, a list item, a row of a table or a line of code as one line of source. So a line is
what is finished or still growing: a finished one never changes again, and line breaks of the source are kept
(poems and addresses rely on them). Fences of code are shown as they are written, so that code is told from
text without colour, and copied without a frame.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from homespec.chat.inline import inline

_FENCE = re.compile(r"(\s*)(`{3,}|~{3,})\s*([^`]*)$")
_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+")
_RULE = re.compile(r"\s{0,3}([-*_])(\s*\1){2,}\s*")
_ITEM = re.compile(r"(\s*)([-*+]|\d{1,9}[.)])\s+")
_QUOTE = re.compile(r"\s{0,3}>\s?")
_DELIMITER_CELL = re.compile(r":?-+:?")
# Lines before the current one that a highlighter looks at, to know whether it is inside a string or comment.
_HIGHLIGHT_LINES = 100
_LEAST_CELLS = 12
_TAB_CELLS = 4


@dataclass(frozen=True, slots=True)
class Row:
    """A line for the terminal.

    Attributes:
        ansi: with escape sequences, without a line break.
        cells: how wide it is; more than the terminal has makes the terminal wrap it.
    """

    ansi: str
    cells: int


class Block(Protocol):
    """Something to be laid out at a width."""

    def rows(self, console: Console, width: int) -> list[Row]:
        """Lines of the terminal."""


@dataclass(frozen=True, slots=True)
class Prose:
    """Text that is wrapped, its later lines indented as far as `rest`."""

    text: Text
    first: str = ""
    rest: str = ""

    def rows(self, console: Console, width: int) -> list[Row]:
        """See `Block`."""
        first, rest = self.first, self.rest
        if width - cell_len(first) < _LEAST_CELLS:
            first, rest = first.strip() and f"{first.strip()} ", ""
        room = max(1, width - max(cell_len(first), cell_len(rest)))
        lines = self.text.wrap(console, room, overflow="fold") or [Text()]
        for number, line in enumerate(lines):
            line.rstrip()
            lines[number] = Text.assemble(rest if number else first, line)
        return [row for line in lines for row in drawn(console, line)]


@dataclass(frozen=True, slots=True)
class Code:
    """A line that only the terminal may break, so that it can be copied whole."""

    text: Text

    def rows(self, console: Console, width: int) -> list[Row]:
        """See `Block`."""
        return drawn(console, self.text)


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table: header, delimiter row, rows."""

    lines: tuple[str, ...]

    def rows(self, console: Console, width: int) -> list[Row]:
        """See `Block`. What is no table, or has no room, is shown as it was written."""
        header, *body = map(_cells, self.lines)
        if not body or not all(map(_DELIMITER_CELL.fullmatch, body[0])) or width < 6 * len(header):
            return [row for line in self.lines for row in Prose(Text(line)).rows(console, width)]
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for number, cell in enumerate(header):
            mark = body[0][number] if number < len(body[0]) else ""
            numbers = mark.endswith(":") and not mark.startswith(":")
            table.add_column(inline(cell), justify="right" if numbers else "left", overflow="fold")
        for cells in body[1:]:
            table.add_row(*map(inline, (cells + [""] * len(header))[: len(header)]))
        return [row for row in drawn(console, table, width) if row.ansi.strip()]


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", inner)]


def drawn(console: Console, renderable: RenderableType, width: int | None = None) -> list[Row]:
    """Rows of anything that rich can draw; without a width, nothing is wrapped."""
    with console.capture() as capture:
        if width is None:
            console.print(renderable, end="", no_wrap=True, overflow="ignore", crop=False, highlight=False)
        else:
            console.print(renderable, end="", width=width, highlight=False)
    lines = capture.get().rstrip("\n").split("\n")
    return [Row(line.rstrip(" "), cell_len(Text.from_ansi(line).plain.rstrip())) for line in lines]


class MarkdownLines:
    """Where in a Markdown text we are, and what its lines look like."""

    def __init__(self, code_theme: str = "ansi_dark") -> None:
        self._code_theme = code_theme
        self._fence = ""
        self._indent = 0
        self._language = ""
        self._code: list[str] = []
        self._table: list[str] = []

    @property
    def in_table(self) -> bool:
        """Whether finished rows wait for the table's end."""
        return bool(self._table)

    def finish(self, line: str, skip: int = 0) -> list[Block]:
        """Takes a finished line.

        Args:
            line: without its line break.
            skip: how many of its characters are shown already and are not to be shown again.

        Returns:
            What can be shown for good; rows of a table wait for its end.
        """
        if not self._fence and _is_table_row(line):
            self._table.append(line)
            return []
        blocks = self.end()
        block = self._block(line, skip, growing=False)
        self._enter_or_leave_code(line)
        return blocks if skip and skip >= len(line) else [*blocks, block]

    def growing(self, line: str, skip: int = 0) -> list[Block]:
        """How a line that is still being written looks now, with the rows that wait; nothing is changed."""
        if not self._fence and _is_table_row(line):
            return [TableBlock((*self._table, line))]
        waiting: list[Block] = [TableBlock(tuple(self._table))] if self._table else []
        return [*waiting, self._block(line, skip, growing=True)] if line[skip:] else waiting

    def end(self) -> list[Block]:
        """What still waits, once no row of the table will follow."""
        rows, self._table = self._table, []
        return [TableBlock(tuple(rows))] if rows else []

    def _enter_or_leave_code(self, line: str) -> None:
        fence = _FENCE.match(line)
        if not self._fence and fence:
            self._indent, self._fence, self._code = len(fence[1]), fence[2], []
            self._language = fence[3].split(" ")[0].strip("{}.").lower()
        elif self._fence and self._closes(fence):
            self._fence = ""
        elif self._fence:
            self._code = [*self._code[-_HIGHLIGHT_LINES:], line]

    def _closes(self, fence: re.Match[str] | None) -> bool:
        return fence is not None and fence[2].startswith(self._fence) and not fence[3].strip()

    def _block(self, line: str, skip: int, *, growing: bool) -> Block:
        fence = _FENCE.match(line)
        if (self._fence and self._closes(fence)) or (not self._fence and fence):
            return Code(Text(line.strip()[skip:], "dim"))
        if self._fence:
            return Code(self._highlighted(line, skip))
        return _prose(line, skip, growing=growing)

    def _highlighted(self, line: str, skip: int) -> Text:
        # Code that stands inside a list item is indented with it; that indentation is not the code's.
        own = [_dedent(earlier, self._indent).expandtabs(_TAB_CELLS) for earlier in (*self._code, line)]
        if not self._language:
            return Text(own[-1])[skip:]
        syntax = Syntax("", self._language, theme=self._code_theme, background_color="default")
        text = syntax.highlight("\n".join(own) + "\n")
        text.rstrip()
        lines = text.split("\n", allow_blank=True)
        whole = lines[len(own) - 1] if len(lines) >= len(own) else Text(own[-1])
        return whole[skip:]


def _is_table_row(line: str) -> bool:
    return line.lstrip().startswith("|") and line.count("|") > 1


def _dedent(line: str, indent: int) -> str:
    return line[min(indent, len(line) - len(line.lstrip())) :]


def _prose(line: str, skip: int, *, growing: bool) -> Prose:
    if heading := _HEADING.match(line):
        text = inline(line[max(skip, heading.end()) :].rstrip("# "), growing=growing)
        text.stylize_before("bold underline" if len(heading[1]) == 1 else "bold")
        return Prose(text)
    if _RULE.fullmatch(line) and not growing:
        return Prose(Text("---", "dim"))
    if item := _ITEM.match(line):
        marker = "•" if item[2] in "-*+" else item[2]
        first = f"{item[1]}{marker} "
        rest = " " * cell_len(first)
        return Prose(inline(line[max(skip, item.end()) :], growing=growing), rest if skip else first, rest)
    if quote := _QUOTE.match(line):
        text = inline(line[max(skip, quote.end()) :], growing=growing)
        text.stylize_before("italic")
        return Prose(text, "> ", "> ")
    indent = " " * (len(line) - len(line.lstrip()))
    return Prose(inline(line[max(skip, len(indent)) :], growing=growing), indent, indent)
