"""What all plots of a report have in common; the one importer of matplotlib (extra `bench`), on demand."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from homespec.benchmark import drawing
from homespec.benchmark.drawing import Mark
from homespec.benchmark.palette import GRID, INK, MUTED, SURFACE
from homespec.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH_INCHES = 7.2
_MARGINS_INCHES = 0.75
_PNG_DOTS_PER_INCH = 160
_LONGEST_LABEL = 40


class Plot(NamedTuple):
    """A plot that was drawn.

    Attributes:
        stem: of its files, to which .svg and .png are added.
        title: also written in it.
        caption: how to read it.
        svg: for the page.
    """

    stem: str
    title: str
    caption: str
    svg: str


class Sheet:
    """A figure of plots below each other, and what its marks stand for.

    Attributes:
        title: of the figure.
        axes: of the plots, from the top.
    """

    def __init__(self, title: str, heights_inches: Sequence[float]) -> None:
        from matplotlib.figure import Figure

        self.title = title
        self._marks: dict[str, Mark] = {}
        size = (_WIDTH_INCHES, sum(heights_inches) + _MARGINS_INCHES)
        self._figure = Figure(size, layout="constrained")
        grid = self._figure.subplots(
            len(heights_inches), 1, sharex=True, squeeze=False, height_ratios=list(heights_inches)
        )
        self.axes: list[Axes] = list(grid[:, 0])
        for axes in self.axes:
            axes.set_axisbelow(True)
            axes.spines[["top", "right", "left"]].set_visible(False)
            axes.tick_params(length=0)

    def mark(self, text: str, lines: Sequence[int]) -> str:
        """An id for an artist (its `gid`).

        Args:
            text: what the artist says.
            lines: of the results file that it is computed from.
        """
        name = f"mark-{len(self._marks)}"
        self._marks[name] = Mark(text, tuple(lines))
        return name

    def legend(self, handles: Sequence[Any], labels: Sequence[str], columns: int) -> None:
        """Above the plots."""
        self.axes[0].legend(
            handles,
            # matplotlib leaves out what begins with an underscore.
            [short(label).lstrip("_") for label in labels],
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=columns,
            frameon=False,
            borderaxespad=0.2,
            handlelength=2.6,
            columnspacing=1.4,
        )

    def save(self, directory: Path, stem: str, caption: str) -> Plot:
        """Writes DIRECTORY/STEM.png, in light colours, and STEM.svg, which follows the reader's."""
        self._figure.suptitle(self.title, x=0.012, ha="left", weight="bold", size=11)
        picture = directory / f"{stem}.png"
        self._figure.savefig(
            picture, dpi=_PNG_DOTS_PER_INCH, facecolor=SURFACE.light, metadata={"Software": None}
        )
        buffer = io.StringIO()
        self._figure.savefig(buffer, format="svg", facecolor="none", metadata={"Date": None})
        adapted = drawing.adapt(buffer.getvalue(), stem, self.title, self._marks)
        (directory / f"{stem}.svg").write_text(adapted.standalone, encoding="utf-8")
        return Plot(stem, self.title, caption, adapted.inline)


def require_matplotlib() -> None:
    """Fails early and with advice.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "A report needs matplotlib for its plots, and it is not installed.",
            hint="pip install 'homespec[bench]'",
        ) from error


@contextmanager
def style() -> Iterator[None]:
    """What is drawn and saved inside has the report's looks."""
    import matplotlib

    settings: dict[Any, Any] = {
        "font.family": ["DejaVu Sans"],
        "font.size": 8.5,
        "text.parse_math": False,
        "text.color": INK.light,
        "axes.labelcolor": INK.light,
        "axes.edgecolor": MUTED.light,
        "grid.color": GRID.light,
        "grid.linewidth": 0.6,
        "xtick.labelcolor": INK.light,
        "ytick.labelcolor": INK.light,
        "svg.fonttype": "none",
        "svg.hashsalt": "homespec",
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # Names may be in a script that matplotlib's font lacks; browsers have others.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def short(text: str, longest: int = _LONGEST_LABEL) -> str:
    """A name on one line, of at most so many characters, all of which can be printed."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split()) or "?"
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
