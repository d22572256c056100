"""Markdown inside a line -> styled text."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.text import Text

# Plain ANSI styles: they follow the terminal's own palette, dark or light.
_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}
CODE_STYLE = "cyan"
# Markers that may still be open at the end of a line that is being written, longest first.
_MARKERS = ("**", "__", "~~", "`", "*", "_")


@functools.cache
def _parser() -> MarkdownIt:
    # HTML stays text: nothing that the model wrote may vanish.
    return MarkdownIt("commonmark", {"html": False}).enable("strikethrough")


def inline(source: str, *, growing: bool = False) -> Text:
    """Styled text of one line.

    Args:
        source: Markdown without block structure.
        growing: more will follow. Emphasis or code that is still open is shown as if it ended here, so that
            the text does not jump when the end arrives.
    """
    tokens = _children(source)
    if growing:
        for marker in _MARKERS:
            if any(token.type == "text" and marker in token.content for token in tokens):
                closed = _children(source.rstrip() + marker)
                if len(closed) > len(tokens):
                    tokens = closed
    return _styled(tokens)


def _children(source: str) -> Sequence[Token]:
    return _parser().parseInline(source)[0].children or []


def _styled(tokens: Sequence[Token]) -> Text:
    text = Text()
    styles: list[str] = []
    links: list[str] = []
    for token in tokens:
        kind, _, edge = token.type.rpartition("_")
        match token.type:
            case "code_inline":
                text.append(token.content, " ".join([*styles, CODE_STYLE]))
            case "softbreak" | "hardbreak":
                text.append("\n")
            case "image":
                text.append(f"{token.content} ({token.attrs.get('src', '')})", "underline")
            case "link_open":
                links.append(str(token.attrs.get("href", "")))
                styles.append("underline")
            case "link_close":
                styles.pop()
                # The address is written out: a hidden one can be neither read nor copied.
                if (address := links.pop()) and not text.plain.endswith(address):
                    text.append(f" ({address})", "dim")
            case _ if edge == "open":
                styles.append(_STYLES.get(kind, "none"))
            case _ if edge == "close":
                styles.pop()
            case _:
                text.append(token.content, " ".join(styles))
    return text
