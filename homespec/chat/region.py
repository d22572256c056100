"""The lines at the bottom of the terminal that may still change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from homespec.chat.lines import Row


@dataclass(slots=True)
class Region:
    """Draws rows so that they can be drawn over, sending only what has changed.

    The cursor rests behind the last row. Nothing else may write meanwhile. What the user types ahead, and a
    change of the terminal's size, move rows in ways that nobody can know: `freeze` then leaves them alone.

    Attributes:
        write: sends text to the terminal.
    """

    write: Callable[[str], None]
    _rows: list[Row] = field(default_factory=list)
    _width: int = 80

    @property
    def is_empty(self) -> bool:
        """Whether nothing is shown that may still change."""
        return not self._rows

    def show(self, rows: Sequence[Row], width: int) -> None:
        """Shows these rows in place of those there are; they must fit on the screen."""
        text = self._change(list(rows))
        self._rows, self._width = list(rows), width
        if text:
            self.write(text)

    def commit(self, rows: Sequence[Row]) -> None:
        """Shows these rows for good in place of those there are, and starts anew below them."""
        text = self._change(list(rows), redraw_last=True)
        self._rows = []
        self.write(text + "\n" if rows else text)

    def freeze(self) -> None:
        """Leaves what is shown for good, whatever became of it, and starts anew below."""
        if self._rows:
            self._rows = []
            self.write("\n")

    def _change(self, rows: list[Row], *, redraw_last: bool = False) -> str:
        old = self._rows
        first = 0
        while first < min(len(old), len(rows)) and old[first] == rows[first]:
            first += 1
        if first == len(old) == len(rows) and not redraw_last:
            return ""
        # The last row there is has to be gone over in any case: the cursor is in it.
        first = max(0, min(first, len(old) - 1, len(rows) - 1))
        added = "".join("\n" + row.ansi for row in rows[first + 1 :])
        begun = first == len(old) - 1 and first < len(rows) and old[first].ansi
        if begun and rows[first].ansi.startswith(begun) and not redraw_last:
            return rows[first].ansi[len(begun) :] + added
        up = sum(self._height(row) for row in old[first:]) - 1
        start = "\r" + (f"\x1b[{up}A" if up > 0 else "") + "\x1b[J" if old else ""
        return start + (rows[first].ansi if first < len(rows) else "") + added

    def _height(self, row: Row) -> int:
        return max(1, -(-row.cells // self._width))
