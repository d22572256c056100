"""How a draft model chooses draft tokens from its own logits, through the same processors as the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from homespec.contracts import Chance
from homespec.records import FloatArray, TokenDistribution
from homespec.sampling.chance import SharedNoise
from homespec.sampling.processors import Processors, peak_index


@dataclass(frozen=True, slots=True)
class Candidate:
    """The next draft token before it is drawn.

    Attributes:
        confidence: the largest probability of the draft distribution, 0 to 1: all that a draft-length rule
            may look at, since it is known before the draw.
        draw: draws the token for an absolute position in the sequence and returns it with the distribution
            that it was drawn from; None in its place when the choice is deterministic.
    """

    confidence: float
    draw: Callable[[int], tuple[int, TokenDistribution | None]]


class Picker(Protocol):
    """Chooses draft tokens for one verifier."""

    def look(self, row: FloatArray, context: Sequence[int]) -> Candidate:
        """Reads the draft model's logits.

        Args:
            row: shape (vocab_size,), not modified; done with when this returns.
            context: the tokens before the one to be chosen: history and draft so far.

        Raises:
            NoTokenError: the request permits nothing that the draft model can write.
            DecodeError: the row has no largest finite logit.
        """


class GreedyPicker:
    """Proposes the draft model's most probable token; its confidence is that of temperature 1."""

    def __init__(self, processors: Processors) -> None:
        self._processors = processors

    def look(self, row: FloatArray, context: Sequence[int]) -> Candidate:
        """See `Picker.look`."""
        logits = self._processors.adjusted(row, context)
        token = peak_index(logits)
        weights = logits - logits[token]
        np.exp(weights, out=weights)
        confidence = 1.0 / float(weights.sum())
        return Candidate(confidence, lambda _position: (token, None))


class SampledPicker:
    """Draws from the draft distribution and hands it on, for rejection and block verification."""

    def __init__(self, processors: Processors, chance: Chance) -> None:
        self._processors = processors
        self._chance = chance

    def look(self, row: FloatArray, context: Sequence[int]) -> Candidate:
        """See `Picker.look`."""
        distribution = self._processors.distribution(row, context)
        return Candidate(
            distribution.largest,
            lambda position: (self._chance.choose(distribution, position), distribution),
        )


class CoupledPicker:
    """Draws with the noise that the target will draw with, which makes the draft deterministic."""

    def __init__(self, processors: Processors, noise: SharedNoise) -> None:
        self._processors = processors
        self._noise = noise

    def look(self, row: FloatArray, context: Sequence[int]) -> Candidate:
        """See `Picker.look`."""
        distribution = self._processors.distribution(row, context)
        return Candidate(
            distribution.largest,
            lambda position: (self._noise.choose(distribution, position), None),
        )
