"""Thinking blocks of a reply."""

from __future__ import annotations

import re

_BLOCK = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


def without_thinking(text: str) -> str:
    """A reply without its thinking; unchanged where it has none.

    A block that was never closed takes the rest of the text with it. Where the prompt opened the block, the
    reply closes it only: what stands before that is thinking.
    """
    if "<think>" not in text and "</think>" not in text:
        return text
    return _BLOCK.sub("", text).rpartition("</think>")[2].strip()
