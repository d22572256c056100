"""Block verification: the draft is judged as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from homespec.contracts import Chance
from homespec.records import Draft, FloatArray, TokenDistribution, Verdict
from homespec.sampling.distributions import probability, proposal, residual
from homespec.sampling.processors import Processors


class BlockVerifier:
    """A `Verifier` that keeps the target's law and accepts no fewer tokens on average than rejection.

    Sun et al. 2403.10444, algorithm 2. A token that the target likes less may be made up for by the tokens
    around it, so the longest acceptable prefix is looked for: the paper tosses a coin of its own for every
    prefix and takes the longest that wins. Tossing from the long end until one wins is the same.
    """

    def __init__(self, processors: Processors, chance: Chance) -> None:
        self._processors = processors
        self._chance = chance

    def verify(self, history: Sequence[int], draft: Draft, logits: FloatArray) -> Verdict:
        """See `contracts.Verifier`."""
        rows = self._processors.distributions(history, draft.tokens, logits)
        targets: list[TokenDistribution] = []
        # reach[i]: the probability that at least i tokens are accepted, given the first i of the draft.
        reach = [1.0]
        for index, token in enumerate(draft.tokens):
            targets.append(next(rows))
            ratio = probability(targets[index], token) / probability(proposal(draft, index), token)
            reach.append(min(1.0, reach[index] * ratio))
            if reach[-1] == 0:  # Nor will any longer prefix be accepted.
                break
        if self._chance.happens(reach[-1]):
            bonus = self._chance.choose(next(rows), len(history) + len(draft.tokens))
            return Verdict(len(draft.tokens), (*draft.tokens, bonus))
        num_accepted = len(targets)
        while True:
            num_accepted -= 1
            rest, mass = residual(targets[num_accepted], proposal(draft, num_accepted), reach[num_accepted])
            # Without mass there is nothing to recover with here, and shorter prefixes are as good.
            stops = mass > 0 and self._chance.happens(mass / (mass + (1.0 - reach[num_accepted])))
            if stops or num_accepted == 0:
                recovered = self._chance.choose(rest, len(history) + num_accepted)
                return Verdict(num_accepted, (*draft.tokens[:num_accepted], recovered))
