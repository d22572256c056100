"""Coupled verification: the target draws every token with noise that the draft cannot influence."""

from __future__ import annotations

from collections.abc import Sequence

from homespec.records import Draft, FloatArray, Verdict
from homespec.sampling.chance import SharedNoise
from homespec.sampling.matching import match
from homespec.sampling.processors import Processors


class CoupledVerifier:
    """A `Verifier` that accepts the draft while it equals the target's own draw at each position.

    The text depends on seed and target alone, whatever the drafter and the draft length (Daliri, Musco,
    Suresh 2408.07978). A drafter that draws with the same noise is accepted most often.
    """

    def __init__(self, processors: Processors, noise: SharedNoise) -> None:
        self._processors = processors
        self._noise = noise

    def verify(self, history: Sequence[int], draft: Draft, logits: FloatArray) -> Verdict:
        """See `contracts.Verifier`; rows after the first difference are not looked at."""
        targets = self._processors.distributions(history, draft.tokens, logits)
        draws = (
            self._noise.choose(target, position) for position, target in enumerate(targets, len(history))
        )
        return match(draft.tokens, draws)
