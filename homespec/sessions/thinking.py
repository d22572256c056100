"""Thinking blocks of a reply."""

from __future__ import annotations

import re

_BLOCK = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


def without_thinking(text: str) -> str:
    """A reply without its thinking; unchanged where it has none.

    A block that was never closed takes the rest of the text with it. Where the prompt opened the block, the
    reply closes it only: what stands before that is thinking.
    """
    opened, closed = text.find("<think>"), text.find("</think>")
    if opened < 0 and closed < 0:
        return text
    if closed >= 0 and not 0 <= opened < closed:
        text = text[closed + len("</think>") :]
    return _BLOCK.sub("", text).strip()
