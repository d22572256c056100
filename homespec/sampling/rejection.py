"""Speculative sampling by rejection, token by token."""

from __future__ import annotations

from collections.abc import Sequence

from homespec.contracts import Chance
from homespec.records import Draft, FloatArray, Verdict
from homespec.sampling.distributions import probability, proposal, residual
from homespec.sampling.processors import Processors


class RejectionVerifier:
    """A `Verifier` that keeps the target's law (Leviathan et al. 2211.17192, algorithm 1).

    A draft token is accepted with probability min(1, target_probs / draft_probs); the first that is not is
    replaced by a draw from the normalised max(target_probs - draft_probs, 0).
    """

    def __init__(self, processors: Processors, chance: Chance) -> None:
        self._processors = processors
        self._chance = chance

    def verify(self, history: Sequence[int], draft: Draft, logits: FloatArray) -> Verdict:
        """See `contracts.Verifier`; rows after the first rejection are not looked at."""
        targets = self._processors.distributions(history, draft.tokens, logits)
        for index, token in enumerate(draft.tokens):
            target, drawn_from = next(targets), proposal(draft, index)
            acceptance = probability(target, token) / probability(drawn_from, token)
            if not self._chance.happens(min(1.0, acceptance)):
                rest, _ = residual(target, drawn_from)
                recovered = self._chance.choose(rest, len(history) + index)
                return Verdict(index, (*draft.tokens[:index], recovered))
        bonus = self._chance.choose(next(targets), len(history) + len(draft.tokens))
        return Verdict(len(draft.tokens), (*draft.tokens, bonus))
