"""Greedy verification: the target's most probable token at every row."""

from __future__ import annotations

from collections.abc import Sequence

from homespec.records import Draft, FloatArray, Verdict
from homespec.sampling.matching import match
from homespec.sampling.processors import Processors


class GreedyVerifier:
    """A `Verifier` that accepts the draft while it equals the target's argmax."""

    def __init__(self, processors: Processors) -> None:
        self._processors = processors

    def verify(self, history: Sequence[int], draft: Draft, logits: FloatArray) -> Verdict:
        """See `contracts.Verifier`; rows after the first difference are not looked at."""
        return match(draft.tokens, self._processors.argmaxes(history, draft.tokens, logits))
