"""When a reply ends, and the text that is safe to show."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence

from homespec.records import FinishReason


class Stopping:
    """Decides after every committed token whether the reply is over, and turns tokens into text.

    The order of checks: stop token, stop string, token budget, context end. Text is held back while it
    ends in an unfinished UTF-8 character or in what may become a stop string.
    """

    def __init__(
        self,
        *,
        is_end: Callable[[int], bool],
        token_bytes: Callable[[int], bytes],
        stop_strings: Sequence[str],
        max_tokens: int | None,
        context_tokens: int,
    ) -> None:
        """Starts with an empty reply.

        Args:
            is_end: whether a token ends the reply by itself.
            token_bytes: the bytes that a token adds to the text.
            stop_strings: the reply ends before the first occurrence of any; empty strings are ignored.
            max_tokens: the most tokens of the reply; None for as many as the context holds.
            context_tokens: prompt and reply together hold at most this many tokens.
        """
        self._is_end = is_end
        self._token_bytes = token_bytes
        self._stop_strings = tuple(filter(None, stop_strings))
        self._max_tokens = max_tokens
        self._context_tokens = context_tokens
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._ready = ""
        self._num_tokens = 0

    def room(self, num_tokens: int) -> int:
        """How many more tokens may be committed to a sequence of this length."""
        left = self._context_tokens - num_tokens
        return left if self._max_tokens is None else min(left, self._max_tokens - self._num_tokens)

    def commit(self, token: int, num_tokens: int) -> FinishReason | None:
        """Takes the next token of the reply.

        Args:
            token: it becomes part of the reply whatever the answer is.
            num_tokens: length of the whole sequence with it.

        Returns:
            Why the reply ends with this token, or None.
        """
        self._num_tokens += 1
        if self._is_end(token):
            return "stop"
        if self._add_text(self._decoder.decode(self._token_bytes(token))):
            return "stop"
        if self._max_tokens is not None and self._num_tokens >= self._max_tokens:
            return "length"
        return "context" if num_tokens >= self._context_tokens else None

    def _add_text(self, text: str) -> bool:
        """Whether a stop string is complete; the text before it is then all there is."""
        self._held += text
        ends = [at for stop in self._stop_strings if (at := self._held.find(stop)) >= 0]
        if ends:
            self._ready += self._held[: min(ends)]
            self._held = ""
            self._stop_strings = ()
            self._decoder.reset()
            return True
        safe = len(self._held) - self._unsafe_length()
        self._ready += self._held[:safe]
        self._held = self._held[safe:]
        return False

    def _unsafe_length(self) -> int:
        """Length of the longest end of the held text that begins a stop string."""
        return max(
            (
                length
                for stop in self._stop_strings
                for length in range(1, min(len(stop), len(self._held) + 1))
                if self._held.endswith(stop[:length])
            ),
            default=0,
        )

    def take_text(self) -> str:
        """The text that became safe to show since the last call."""
        text, self._ready = self._ready, ""
        return text

    def finish_text(self) -> str:
        """The rest of the text once the reply is over, held-back beginnings of stop strings included."""
        text = self.take_text() + self._held + self._decoder.decode(b"", final=True)
        self._held = ""
        return text
