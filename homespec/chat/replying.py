"""Shows a reply while it is generated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Protocol

from homespec.chat.thinking import OPEN, ThinkSplitter
from homespec.chat.tinting import Origins
from homespec.chat.writers import Writer
from homespec.records import Reply, StepRecord

# Fewer tokens are read before anyone wonders.
_SHORT_PREFILL_TOKENS = 64


class Replying(Protocol):
    """A reply in the making; `engine.generation.Generation`, as far as it matters here."""

    steps: list[StepRecord]
    on_prefill: Callable[[int, int], None]

    def __iter__(self) -> Iterator[str]:
        """Pieces of text."""

    @property
    def reply(self) -> Reply:
        """What there is."""


def show_reply(
    generation: Replying,
    writer: Writer,
    *,
    in_thinking: bool = False,
    origins: Origins | None = None,
) -> float:
    """Runs a generation to its end, or until it is interrupted.

    Args:
        generation: what to show.
        writer: where to.
        in_thinking: the prompt has opened a thinking block already.
        origins: tell apart what the drafter proposed; thinking is then shown like all other text.

    Returns:
        Seconds that it took.
    """
    generation.on_prefill = lambda done, total: _tell_prefill(writer, done, total)
    splitter, num_seen, start = ThinkSplitter(thinking=in_thinking), 0, perf_counter()
    try:
        for piece in generation:
            if origins is None:
                for thinking, text in splitter.feed(piece):
                    writer.write(text, thinking=thinking)
                continue
            origins.observe(generation.steps[num_seen:])
            num_seen = len(generation.steps)
            for text, origin in origins.split(piece):
                writer.write(text, origin=origin)
    finally:
        for thinking, text in splitter.finish():
            writer.write(text, thinking=thinking)
        writer.finish()
    return perf_counter() - start


def _tell_prefill(writer: Writer, done: int, total: int) -> None:
    if total > _SHORT_PREFILL_TOKENS:
        writer.progress(f"reading the prompt: {done:,} of {total:,} tokens")


def opens_thinking(token_texts: Sequence[str]) -> bool:
    """Whether a prompt that ends in these tokens has opened a thinking block."""
    return "".join(token_texts).rstrip().endswith(OPEN)
