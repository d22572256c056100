"""Tells a reply's thinking from its answer while it streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

OPEN, CLOSE = "<think>", "</think>"


@dataclass(slots=True)
class ThinkSplitter:
    """Cuts streamed text at `<think>` and `</think>`.

    Attributes:
        thinking: whether the text is inside of them now; true from the start where the chat template opened
            the block in the prompt.
    """

    thinking: bool = False
    _held: str = ""
    _begun: bool = False

    def feed(self, piece: str) -> Iterator[tuple[bool, str]]:
        """Yields text with whether it is thinking; what may be the beginning of a tag is held back."""
        self._held += piece
        while (at := self._held.find(self._tag)) >= 0:
            text, self._held = self._held[:at], self._held[at + len(self._tag) :]
            yield from self._yield(text)
            self.thinking, self._begun = not self.thinking, False
        keep = next((n for n in range(len(self._tag) - 1, 0, -1) if self._held.endswith(self._tag[:n])), 0)
        text, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        yield from self._yield(text)

    def finish(self) -> Iterator[tuple[bool, str]]:
        """The rest, once nothing follows."""
        text, self._held = self._held, ""
        yield from self._yield(text)

    @property
    def _tag(self) -> str:
        return CLOSE if self.thinking else OPEN

    def _yield(self, text: str) -> Iterator[tuple[bool, str]]:
        # Line breaks around the tags belong to the tags.
        text = text if self._begun else text.lstrip("\n")
        if text:
            self._begun = True
            yield self.thinking, text


def thinking_of(text: str) -> str:
    """The thinking in a whole reply; empty without any."""
    splitter = ThinkSplitter(thinking=OPEN not in text and CLOSE in text)
    parts = [*splitter.feed(text), *splitter.finish()]
    return "".join(part for is_thinking, part in parts if is_thinking).strip()
