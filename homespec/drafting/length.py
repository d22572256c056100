"""How far to draft."""

from __future__ import annotations

from dataclasses import dataclass

from homespec.records import StepRecord


@dataclass(frozen=True, slots=True)
class FixedLength:
    """The same draft length in every step, cut short where the drafter is unsure.

    Attributes:
        length: draft tokens per step; 0 decodes plainly.
        min_confidence: a token of which the drafter is less sure than this ends the draft. It is the
            probability that the drafter gives its favourite, known before the token is drawn, so sampled
            drafts keep the law.
    """

    length: int
    min_confidence: float = 0.0

    def next_length(self, room: int) -> int:
        """See `LengthPolicy`."""
        return min(self.length, room)

    def keep_going(self, confidence: float) -> bool:
        """See `LengthPolicy`."""
        return confidence >= self.min_confidence

    def observe(self, step: StepRecord) -> None:
        """Nothing to learn."""
