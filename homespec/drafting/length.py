"""How far to draft: a fixed length, or the length that yields the most tokens per second."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from homespec.contracts import Costs, Going
from homespec.records import StepRecord

# Acceptance per token that hardly any draft model exceeds.
NEARLY_ALWAYS = 0.97
# Drafts that are drawn token by token do not get longer than this; copies may.
LONGEST_DRAWN_TOKENS = 31
# What a draft must promise beyond its cost. The best of many estimates is mostly too good: smaller gains are
# not found again in the measured speed.
_LEAST_GAIN = 0.04


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

    def keep_going(self, confidence: float) -> Going:
        """See `LengthPolicy`."""
        return Going.ON if confidence >= self.min_confidence else Going.STOP

    def observe(self, step: StepRecord) -> None:
        """Nothing to learn."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What tokens and time are worth in one step. Time is counted in plain steps: decodes of one token.

    The long-run speed is a ratio of sums, and the length that maximises it maximises, in every step,
    tokens - speedup * time with `speedup` the speed itself (Dinkelbach's method for fractional programs). So
    all lengths, of all drafters, 0 included, compare by this one value. The speed that counts is the one at
    which the next tokens would be written otherwise.

    Attributes:
        costs: of the target's decodes.
        depth_tokens: cached tokens before the step.
        speedup: the running speed in tokens per plain step.
        largest_width: no decode may be wider.
    """

    _cheapest: list[tuple[int, float]] = field(default_factory=list, init=False, compare=False)

    costs: Costs
    depth_tokens: int
    speedup: float
    largest_width: int

    @property
    def largest_drawn(self) -> int:
        """No longer draft may be drawn token by token."""
        return min(self.largest_width - 1, LONGEST_DRAWN_TOKENS)

    @property
    def plain_seconds(self) -> float:
        """Of a plain step."""
        return self.costs.seconds(1, self.depth_tokens)

    def value(self, expected_tokens: float, width: int, draft_steps: float = 0.0) -> float:
        """Of a step that yields so many tokens in expectation.

        Args:
            expected_tokens: the target's own included.
            width: of the decode.
            draft_steps: time of drafting, in plain steps.
        """
        return expected_tokens - self.speedup * (draft_steps + self.cheapest(width)[1])

    def cheapest(self, width: int) -> tuple[int, float]:
        """The width, at least this one, that costs least, and its time in plain steps (t* of D-cut).

        The cost curve is not monotone: some kernels like even widths, or multiples of four or eight.
        """
        if not self._cheapest:
            self._fill()
        return self._cheapest[width - 1]

    def _fill(self) -> None:
        """For every width, once a step and only where there is something to weigh."""
        plain_seconds = self.plain_seconds
        best = (0, math.inf)
        for width in range(self.largest_width, 0, -1):
            steps = self.costs.seconds(width, self.depth_tokens) / plain_seconds
            best = (width, steps) if steps <= best[1] else best
            self._cheapest.append(best)
        self._cheapest.reverse()

    def plain(self) -> float:
        """Of a step without a draft."""
        return 1.0 - self.speedup


def _expected_tokens(acceptance: Iterable[float]) -> Iterator[float]:
    """What steps with drafts of one, two, three ... tokens yield in expectation, the target's token included.

    Args:
        acceptance: of each token, if those before it are accepted.
    """
    survival = expected_tokens = 1.0
    for probability in acceptance:
        survival *= probability
        expected_tokens += survival
        yield expected_tokens


def best_cut(rates: Rates, acceptance: Sequence[float]) -> tuple[int, float]:
    """How much of a finished draft to verify (D-cut at batch one).

    Every length is tried, since the cost curve is neither convex nor monotone.

    Args:
        rates: of this step.
        acceptance: for each drafted token the probability that it is accepted if those before it are.

    Returns:
        Draft length from 0 on, and its value.
    """
    best_length, best_value = 0, rates.plain()
    for length, tokens in enumerate(_expected_tokens(acceptance[: rates.largest_width - 1]), start=1):
        width = length + 1
        value = rates.value(tokens, width, _LEAST_GAIN * rates.cheapest(width)[1])
        if value > best_value:
            best_length, best_value = length, value
    return best_length, best_value


def fastest_cut(rates: Rates, acceptance: Sequence[float]) -> tuple[int, float]:
    """How much to verify of a draft that cost nothing: what yields most tokens per time.

    Where text is being copied, the next draft will be as good, and short sure drafts beat a long one that
    would still be worth more than plain decoding.

    Args:
        rates: of this step.
        acceptance: for each drafted token the probability that it is accepted if those before it are.

    Returns:
        Draft length and its value; 0 where no length is worth more than plain decoding.
    """
    best_length, best_speedup, best_value = 0, 0.0, rates.plain()
    for length, tokens in enumerate(_expected_tokens(acceptance[: rates.largest_width - 1]), start=1):
        steps = rates.cheapest(length + 1)[1]
        value = rates.value(tokens, length + 1, _LEAST_GAIN * steps)
        if value > rates.plain() and tokens / steps > best_speedup:
            best_length, best_speedup, best_value = length, tokens / steps, value
    return best_length, best_value


def best_hope(rates: Rates, token_steps: float, acceptance: float = NEARLY_ALWAYS) -> float:
    """The most that a step with a draft model could be worth here.

    Where even that of one that is nearly always right is less than plain decoding is worth, no acceptance can
    make up for what drafting and verifying cost, and the draft model need not be tried at all.

    Args:
        rates: of this step; at least one token may be drafted.
        token_steps: time of drafting one token, in plain steps.
        acceptance: of each token, if those before it are accepted.
    """
    drawn = _expected_tokens(repeat(acceptance, rates.largest_drawn))
    values = (
        rates.value(tokens, length + 1, length * token_steps) for length, tokens in enumerate(drawn, start=1)
    )
    return max(values, default=-math.inf)


def expected_speedup(rates: Rates, token_steps: float, acceptance: float) -> float:
    """How many times as fast as plain decoding a draft model is at its best draft length, or 1.

    Args:
        rates: of the machine.
        token_steps: time of drafting one token, in plain steps.
        acceptance: of each token, if those before it are accepted.
    """
    drawn = _expected_tokens(repeat(acceptance, rates.largest_drawn))
    speedups = (
        tokens / (length * token_steps + rates.cheapest(length + 1)[1])
        for length, tokens in enumerate(drawn, start=1)
    )
    return max((1.0, *speedups))


def going_on(rates: Rates, acceptance: Sequence[float], usual_acceptance: float, token_steps: float) -> float:
    """The most that a draft could be worth if it were drawn on, or is worth as it is.

    Args:
        rates: of this step.
        acceptance: of the tokens drafted so far, which have been paid for.
        usual_acceptance: assumed of those after them.
        token_steps: time of drafting one token, in plain steps.
    """
    num_drawn = len(acceptance)
    probabilities = (*acceptance, *repeat(usual_acceptance, rates.largest_drawn - num_drawn))
    return max(
        rates.value(tokens, length + 1, (length - num_drawn) * token_steps)
        for length, tokens in enumerate((1.0, *_expected_tokens(probabilities)))
        if length >= num_drawn
    )


def decide_going(
    rates: Rates,
    acceptance: Sequence[float],
    next_acceptance: float,
    usual_acceptance: float,
    max_length: int,
    token_steps: float,
) -> Going:
    """What a model that drafts token by token should do with the next one.

    Args:
        rates: of this step.
        acceptance: of the tokens drafted so far.
        next_acceptance: of the token about to be drawn.
        usual_acceptance: assumed of those after it.
        max_length: of the whole draft.
        token_steps: time of drafting one token; the one about to be drawn has been paid for.
    """
    survival = expected_tokens = 1.0
    for probability in acceptance:
        survival *= probability
        expected_tokens += survival
    length = len(acceptance) + 1
    best, going = rates.value(expected_tokens, length), Going.STOP
    further_steps, probability = 0.0, next_acceptance
    while length <= max_length:
        survival *= probability
        expected_tokens += survival
        value = rates.value(expected_tokens, length + 1, further_steps)
        if value > best:
            best, going = value, Going.LAST if further_steps == 0.0 else Going.ON
        length += 1
        further_steps += token_steps
        probability = usual_acceptance
    return going
