"""Makes matplotlib's SVG fit into a page: colours that follow the page's, and where each mark comes from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from xml.etree import ElementTree

from homespec.benchmark.figures import describe_lines, list_lines
from homespec.benchmark.palette import COLORS, INK, css_variables

_NAMESPACE = re.compile(r"^\{[^}]*\}")
_HEX_COLOR = re.compile(r"#[0-9a-f]{6}\b")
_CSS = {color.light: f"var(--{color.name})" for color in COLORS} | {INK.light: "currentColor"}


class Mark(NamedTuple):
    """A point or a bar.

    Attributes:
        text: what it says.
        lines: of the results file that it is computed from.
    """

    text: str
    lines: tuple[int, ...]


class Drawing(NamedTuple):
    """One plot as SVG.

    Attributes:
        inline: for a page that defines `palette.css_variables`.
        standalone: a whole file.
    """

    inline: str
    standalone: str


def adapt(svg: str, prefix: str, title: str, marks: Mapping[str, Mark]) -> Drawing:
    """Rewrites what matplotlib drew.

    Args:
        svg: as matplotlib wrote it, in the light colours of the palette.
        prefix: for ids, which must be unique within a page.
        title: for screen readers.
        marks: id of an element -> what it stands for.
    """
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            # Descriptions of the file; and a style that would leak into the page.
            if _NAMESPACE.sub("", child.tag) in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        _adapt_element(element, prefix, marks)
    root.set("role", "img")
    root.set("aria-label", title)
    root.set("style", "stroke-linejoin:round;stroke-linecap:butt")
    inline = ElementTree.tostring(root, encoding="unicode")
    style = ElementTree.Element("style")
    style.text = f"{css_variables()}svg{{color:var(--{INK.name});background:var(--surface)}}"
    root.insert(0, style)
    root.set("xmlns", "http://www.w3.org/2000/svg")
    return Drawing(inline, ElementTree.tostring(root, encoding="unicode"))


def _adapt_element(element: ElementTree.Element, prefix: str, marks: Mapping[str, Mark]) -> None:
    element.tag = _NAMESPACE.sub("", element.tag)
    attributes = {_NAMESPACE.sub("", name): value for name, value in element.attrib.items()}
    element.attrib.clear()
    mark = marks.get(attributes.get("id", ""))
    if mark is not None:
        del attributes["id"]
        attributes |= {"class": "mark", "data-lines": list_lines(mark.lines)}
        title = ElementTree.Element("title")
        title.text = f"{mark.text} ({describe_lines(mark.lines)})"
        element.insert(0, title)
    for name, value in attributes.items():
        if name == "id":
            value = f"{prefix}-{value}"
        elif name in ("href", "clip-path"):
            value = value.replace("#", f"#{prefix}-")
        elif name == "style":
            value = _HEX_COLOR.sub(lambda match: _CSS.get(match[0], match[0]), value)
        element.set(name, value)
