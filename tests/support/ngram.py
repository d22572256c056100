"""Prompt lookup, the plainest drafter: what followed the last time that the text read like this?

The suffix drafter took its place in the product; tests draft with it, and compare with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from homespec.contracts import KeepGoing
from homespec.drafting.prefix import common_prefix_length
from homespec.records import NO_DRAFT, Draft

# Shorter matches draft template markers and punctuation, most of it rejected.
MIN_MATCH_TOKENS = 3
MAX_MATCH_TOKENS = 6


class NgramDrafter:
    """Proposes the continuation of the most recent earlier occurrence of the history's last tokens.

    The index maps each n-gram to the position after its latest occurrence, so a token costs one dictionary
    entry per n and a proposal one lookup per n, however long the history is.

    Example: after `the cat sat. the cat`, the 3-gram `. the cat` is new, but with a minimum of 2 `the cat`
    was seen, and `sat. the cat` would be proposed.
    """

    name = "ngram"

    def __init__(
        self, min_match_tokens: int = MIN_MATCH_TOKENS, max_match_tokens: int = MAX_MATCH_TOKENS
    ) -> None:
        self._sizes = range(max_match_tokens, min_match_tokens - 1, -1)
        self._forget()

    def _forget(self) -> None:
        self._indexed: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}

    def propose(self, tokens: Sequence[int], max_tokens: int, keep_going: KeepGoing) -> Draft:
        """See `Drafter.propose`. Deterministic; it has no confidence to ask `keep_going` about."""
        self._index(tokens)
        for size in self._sizes:
            if len(tokens) <= size:
                continue
            start = self._after.get(tuple(tokens[-size:]))
            if start is not None:
                return Draft(tokens=self._continuation(tokens, start, max_tokens))
        return NO_DRAFT

    @staticmethod
    def _continuation(tokens: Sequence[int], start: int, max_tokens: int) -> tuple[int, ...]:
        found = list(tokens[start : start + max_tokens])
        period = len(tokens) - start
        # A match that reaches the end of the history is a repetition with that period: it goes on.
        while len(found) < max_tokens:
            found.append(found[-period])
        return tuple(found)

    def _index(self, tokens: Sequence[int]) -> None:
        """Adds the n-grams that have gained a successor since the last call."""
        known = len(self._indexed)
        if common_prefix_length(self._indexed, tokens) < known:
            # Entries of a text that is gone may hide older ones that still hold: start again. This happens
            # between two turns at most, never within a reply.
            self._forget()
            known = 0
        self._indexed.extend(tokens[known:])
        for end in range(max(known, 1), len(tokens)):
            for size in self._sizes:
                if size <= end:
                    self._after[tuple(tokens[end - size : end])] = end
