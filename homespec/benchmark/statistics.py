"""Ratios of speeds on the same prompts, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Amounts = npt.NDArray[np.float64]
"""Shape (num_prompts, 2): tokens and seconds of each prompt's replies."""

SEED = 20_260_101
CONFIDENCE = 0.9
_NUM_RESAMPLES = 4000
_FEWEST_PROMPTS = 2


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of two speeds.

    Attributes:
        value: of the sums over all prompts.
        resampled: what it would have been with other prompts of the kind (bootstrap).
        num_prompts: that were drawn from; of several scenarios, those of the one with the fewest.
    """

    value: float
    resampled: npt.NDArray[np.float64]
    num_prompts: int

    def interval(self) -> tuple[float, float] | None:
        """Where 90% of the resampled ratios lie; None if a single prompt cannot tell how they differ."""
        if self.num_prompts < _FEWEST_PROMPTS:
            return None
        low, high = np.quantile(self.resampled, (0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2))
        return float(low), float(high)

    def __str__(self) -> str:
        return self.describe(3)

    def describe(self, num_decimals: int) -> str:
        """The ratio, rounded so, and its interval, if it has one."""
        interval = self.interval()
        shown = f" ({interval[0]:.2f} to {interval[1]:.2f})" if interval else ""
        return f"{self.value:.{num_decimals}f}{shown}"


def speed(pairs: Amounts) -> float:
    """Tokens per second, over all prompts."""
    tokens, seconds = pairs.sum(axis=0)
    return float(tokens / seconds)


def compare(ours: Amounts, base: Amounts, generator: np.random.Generator) -> Ratio:
    """How much faster ours is than the base, on the same prompts.

    The interval comes from drawing prompts with replacement, the same ones for both: prompts differ far more
    than the two replies to one of them.
    """
    picks = generator.integers(0, len(ours), (_NUM_RESAMPLES, len(ours)))
    our_sums, base_sums = ours[picks].sum(axis=1), base[picks].sum(axis=1)
    # Replies of a single step have no decode seconds: their ratio is no number.
    with np.errstate(divide="ignore", invalid="ignore"):
        resampled = (our_sums[:, 0] / our_sums[:, 1]) / (base_sums[:, 0] / base_sums[:, 1])
        return Ratio(speed(ours) / speed(base), resampled, len(ours))


def geometric_mean(ratios: Sequence[Ratio]) -> Ratio:
    """Over scenarios, whose prompts were drawn independently."""
    value = np.exp(np.mean([np.log(ratio.value) for ratio in ratios]))
    resampled = np.exp(np.mean([np.log(ratio.resampled) for ratio in ratios], axis=0))
    return Ratio(float(value), resampled, min(ratio.num_prompts for ratio in ratios))
