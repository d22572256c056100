"""Colours of the report, each for light and for dark pages, and which arm has which.

An arm has its drafter's colour in every plot. Colours of arms stand out from their page by at least 3 to 1,
those of text by 4.5 to 1, and those of homespec's drafters differ for colour-blind eyes as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple


class Color(NamedTuple):
    """A colour by its role.

    Attributes:
        name: of the CSS variable, without dashes in front.
        light, dark: on light and on dark pages, `#rrggbb`.
    """

    name: str
    light: str
    dark: str


class ArmStyle(NamedTuple):
    """How plots draw an arm.

    Attributes:
        color: the drafter's.
        marker: the drafter's as well, for eyes that do not tell the colours apart (matplotlib's name of it).
        dashes: tells the lengths of one drafter apart, lengths of strokes and gaps in points; solid if empty.
    """

    color: Color
    marker: str
    dashes: tuple[float, ...]


INK = Color("ink", "#1b1e23", "#e6e8eb")
MUTED = Color("muted", "#5a616b", "#a4abb6")
GRID = Color("grid", "#d8dbe0", "#3b414a")
SURFACE = Color("surface", "#ffffff", "#15181d")

_DRAFTERS = {
    "plain": (Color("arm-plain", "#6b7079", "#9aa1ac"), "d"),
    "ngram": (Color("arm-ngram", "#3f83f0", "#6ea0ff"), "s"),
    "draft-model": (Color("arm-draft-model", "#bf6a12", "#ee9a3a"), "D"),
    "ngram+draft-model": (Color("arm-chain", "#7a2390", "#bf6a9c"), "^"),
    "auto": (Color("arm-auto", "#00593a", "#66e3b4"), "o"),
}
_OTHERS = (
    (Color("arm-other-1", "#8a6d00", "#d6b93c"), "v"),
    (Color("arm-other-2", "#8c2f39", "#ef8a90"), "X"),
    (Color("arm-other-3", "#3c6e71", "#8fc6c9"), "p"),
)
_DASHES: tuple[tuple[float, ...], ...] = ((), (5, 1.5), (1.5, 1.5), (5, 1.5, 1.5, 1.5))
_LENGTH = re.compile(r"\s+\d+$")

SLOTS = (
    Color("slot-1", "#4c7093", "#8fb1d3"),
    Color("slot-2", "#a05f0c", "#e8b269"),
    Color("slot-3", "#26405d", "#d3e1f0"),
    Color("slot-4", "#3d6a2c", "#8fcf7a"),
    Color("slot-5", "#757575", "#cfcfcf"),
)
"""For parts of a whole that are no arms; what is written inside them has the colour of the page."""

COLORS = (INK, MUTED, GRID, SURFACE, *(color for color, _ in (*_DRAFTERS.values(), *_OTHERS)), *SLOTS)


def arm_styles(arms: Sequence[str]) -> dict[str, ArmStyle]:
    """A style for each arm; those of one drafter with several lengths share its colour and marker."""
    styles: dict[str, ArmStyle] = {}
    lengths: dict[str, int] = {}
    others: dict[str, tuple[Color, str]] = {}
    for arm in arms:
        drafter = _LENGTH.sub("", arm)
        if drafter not in _DRAFTERS:
            others.setdefault(drafter, _OTHERS[len(others) % len(_OTHERS)])
        color, marker = _DRAFTERS.get(drafter) or others[drafter]
        rank = lengths[drafter] = lengths.get(drafter, -1) + 1
        styles[arm] = ArmStyle(color, marker, _DASHES[rank % len(_DASHES)])
    return styles


def css_variables() -> str:
    """A style sheet that defines every colour for light and for dark pages."""
    light = "".join(f"--{color.name}:{color.light};" for color in COLORS)
    dark = "".join(f"--{color.name}:{color.dark};" for color in COLORS)
    return f":root{{color-scheme:light dark;{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
