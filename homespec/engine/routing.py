"""Tells the controller, as the reply grows, what kind of text it is."""

from __future__ import annotations

from collections.abc import Sequence

from homespec.drafting.control import Controller
from homespec.drafting.router import TextKind, classify, in_structured_span
from homespec.drafting.suffix import MIN_MATCH_TOKENS, SuffixDrafter

# How often the text is looked at again.
_EVERY_TOKENS = 32
# Inside JSON and tool calls short matches are brackets and quotes; drafted values would mostly be wrong.
_STRUCTURED_MATCH_TOKENS = 6


class Routing:
    """The kind of one reply's text.

    Attributes:
        kind: as of the last look.
    """

    def __init__(
        self, controller: Controller, suffix: SuffixDrafter | None, prompt_text: str, *, sampled: bool
    ) -> None:
        self._controller = controller
        # What is drawn at random is accepted less often: there is something to learn about it apart.
        self._manner = ", sampled" if sampled else ""
        self._suffix = suffix
        self._prompt_text = prompt_text
        self._next_look = 0
        self.kind: TextKind = classify(prompt_text, "")
        controller.kind = self.kind.kind + self._manner

    def follow(self, num_tokens: int, pieces: Sequence[str]) -> None:
        """Looks at the text if it has grown enough.

        Args:
            num_tokens: of the reply.
            pieces: of its text so far.
        """
        if num_tokens < self._next_look:
            return
        self._next_look = num_tokens + _EVERY_TOKENS
        reply_text = "".join(pieces)
        self.kind = classify(self._prompt_text, reply_text)
        self._controller.kind = self.kind.kind + self._manner
        if self._suffix is not None:
            structured = in_structured_span(reply_text)
            self._suffix.min_match_tokens = _STRUCTURED_MATCH_TOKENS if structured else MIN_MATCH_TOKENS
