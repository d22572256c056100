"""Which text came from the drafter."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from homespec.records import StepRecord


class Origins:
    """Tells for streamed text, token by token, which drafter proposed it.

    Text lags behind tokens (unfinished characters, possible stop strings), and pieces of it are no tokens;
    both are decoded the same way, so that characters can be counted off.
    """

    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting: deque[tuple[str, str]] = deque()

    def observe(self, steps: Iterable[StepRecord]) -> None:
        """Takes the steps made since the last call."""
        for step in steps:
            for position, token in enumerate(step.tokens):
                origin = step.drafter if position < step.num_accepted_tokens else ""
                if text := self._decoder.decode(self._token_bytes(token)):
                    self._waiting.append((text, origin))

    def split(self, piece: str) -> Iterator[tuple[str, str]]:
        """The next piece of text in parts, each with the drafter that proposed it; empty for the target."""
        while piece and self._waiting:
            text, origin = self._waiting.popleft()
            taken = text[: len(piece)]
            if rest := text[len(taken) :]:
                self._waiting.appendleft((rest, origin))
            yield taken, origin
            piece = piece[len(taken) :]
        if piece:
            yield piece, ""
