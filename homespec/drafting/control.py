"""Measured control: in every step the drafter and the draft length that yield the most tokens per second.

Source: D-cut (arXiv 2607.14647) cuts drafts by expected throughput instead of a threshold; its table of costs
per batch is here one of costs per width, at batch one. Everything that decides is known before the token in
question is drawn, unless drafts are deterministic, so the target's law is kept (tests/law).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from homespec.contracts import CostModel, Going, KeepGoing
from homespec.drafting.arm import Arm
from homespec.drafting.joining import cut, join
from homespec.drafting.ledger import Gain, Ledger, Tally
from homespec.drafting.length import Rates, best_cut, best_hope, decide_going, fastest_cut, going_on
from homespec.records import NO_DRAFT, Draft, StepRecord

# An arm that does not pay is tried again within the ledger's share for tries, but not more often than once
# in so many steps.
_PROBE_EVERY = 24
# One draft in so many is verified whole, within the same share, so that its later positions are seen as well.
_WHOLE_DRAFT_EVERY = 32
# A step that takes this many times as long as expected is taken for one that takes so long: another program's
# work, or a page read from disk, must not be held against a drafter.
_CLIP = 2.0
# By so many tokens a free drafter must promise more than a draft model that is already drawing: what that has
# just read, it knows better.
_TAIL_GAIN = 0.5


@dataclass(slots=True)
class _Attempt:
    """The step that is under way."""

    rates: Rates
    arm: Arm | None = None
    draft: Draft = NO_DRAFT
    draft_seconds: float = 0.0
    catch_up_seconds: float = 0.0
    num_behind: int = 0
    num_drawn: int = 0
    tail_arm: Arm | None = None
    num_before_tail: int = 0
    is_probe: bool = False

    def author(self, position: int) -> Arm | None:
        """Who proposed a token of the draft."""
        return self.arm if self.tail_arm is None or position < self.num_before_tail else self.tail_arm

    @property
    def author_name(self) -> str:
        """Who proposed the draft."""
        arms = [arm for arm in (self.arm, self.tail_arm) if arm is not None]
        return "+".join(arm.drafter.name for arm in arms)


@dataclass(slots=True)
class _Shadow:
    """A free draft that was not verified: what follows shows whether it would have been accepted."""

    arm: Arm
    position: int
    draft: Draft


class Controller:
    """Chooses the drafter and the draft length; it is the loop's drafter and its length policy in one.

    Attributes:
        kind: of the text, and how its tokens are chosen; it may change. Everything is learned per kind.
        num_drafts: how many were verified because they promised a gain.
        gain: of this request.
    """

    def __init__(
        self,
        costs: CostModel,
        arms: Sequence[Arm],
        max_length: int,
        ledger: Ledger | None = None,
        *,
        pinned: bool = False,
    ) -> None:
        """Starts without experience of this text.

        Args:
            costs: of the target's decodes; refined by what is observed, unless pinned.
            arms: permitted drafters.
            max_length: of a draft.
            ledger: shared with other requests.
            pinned: take times from `costs` instead of the clock, so that a run can be repeated exactly.
        """
        self.kind = ""
        self.num_drafts = 0
        self.gain = Gain(0.0, 0.0)
        self._num_offers = 0
        self._num_cuts = 0
        self._costs = costs
        self._arms = tuple(arms)
        self._max_length = max_length
        self._pinned = pinned
        # Of steps without a free draft: the text between its matches must be written as well, and goes no
        # faster for what the matches yielded. Until measured: plain decoding, at the weight of ten steps.
        self._speed = Tally(10.0, 10.0, 10.0)
        self._attempt: _Attempt | None = None
        self._shadow: _Shadow | None = None
        self._ledger = ledger or Ledger()

    @property
    def name(self) -> str:
        """The arms, joined by `+`."""
        return "+".join(arm.drafter.name for arm in self._arms)

    @property
    def declined(self) -> bool:
        """Whether there was something to draft, and none of it was worth verifying but for a try."""
        return self.num_drafts == 0 and self._num_offers > 0

    # The loop's length policy.

    def next_length(self, room: int) -> int:
        """The most that may be drafted; `propose` decides."""
        return min(self._max_length, room)

    def keep_going(self, confidence: float) -> Going:
        """Not asked: `propose` hands its arms a rule of its own."""
        return Going.ON

    def observe(self, step: StepRecord) -> None:
        """Learns speeds and acceptance from a finished step."""
        attempt, self._attempt = self._attempt, None
        if attempt is None or step.width == 0:
            return
        plain_steps, catch_up_steps = self._time_of(step, attempt)
        arm, gain = attempt.arm, self._ledger.gain(self.kind)
        if self.gain.tokens == 0:
            gain.replies += 1
        num_free, free_steps = self._free_part(step, attempt)
        for one in (gain, self.gain):
            one.add(len(step.tokens), plain_steps + catch_up_steps, num_free)
        self._ledger.total_steps += plain_steps + catch_up_steps
        expected_steps = self._expected_steps(step, attempt)
        plain_steps = min(max(plain_steps, expected_steps / _CLIP), expected_steps * _CLIP)
        num_tokens, plain_steps = len(step.tokens) - num_free, plain_steps - free_steps
        if num_tokens:
            self._speed.add(num_tokens, plain_steps)
        if arm is None:
            return
        if attempt.num_drawn:
            arm.tally(self.kind).add(num_tokens, plain_steps)
            if attempt.is_probe:
                lost_steps = plain_steps - num_tokens / attempt.rates.speedup
                self._ledger.probe_steps += max(0.0, lost_steps) + catch_up_steps
        judged = step.num_accepted_tokens + (step.num_accepted_tokens < step.num_draft_tokens)
        for position, confidence in enumerate(attempt.draft.confidences[:judged]):
            author = attempt.author(position) or arm
            author.learn(self.kind, confidence, accepted=position < step.num_accepted_tokens)

    def _free_part(self, step: StepRecord, attempt: _Attempt) -> tuple[int, float]:
        """How many of the step's tokens a free drafter yielded, and their time in plain steps."""
        if attempt.arm is not None and attempt.arm.is_free:
            return len(step.tokens), 0.0
        if attempt.tail_arm is None:
            return 0, 0.0
        rates, width = attempt.rates, 1 + attempt.num_before_tail
        steps = rates.cheapest(step.width)[1] - rates.cheapest(width)[1]
        return max(0, len(step.tokens) - width), max(0.0, steps)

    def _time_of(self, step: StepRecord, attempt: _Attempt) -> tuple[float, float]:
        """The step's time, and what of it the drafter took to catch up, which is not the step's fault.

        In plain steps, by the clock or, pinned, by what was measured before.
        """
        rates, arm = attempt.rates, attempt.arm
        if self._pinned:
            catch_up_steps = arm.catch_up_steps * attempt.num_behind if arm else 0.0
            return self._expected_steps(step, attempt), catch_up_steps
        if arm is not None and attempt.num_drawn:
            drawn = (attempt.draft_seconds - attempt.catch_up_seconds) / attempt.num_drawn
            drawn_steps = min(drawn / rates.plain_seconds, _CLIP * arm.token_steps)
            arm.token_steps += 0.05 * (drawn_steps - arm.token_steps)
        self._costs.observe(step.width, rates.depth_tokens, step.verify_seconds)
        plain_seconds = self._costs.seconds(1, rates.depth_tokens)
        seconds = step.draft_seconds + step.verify_seconds + step.sample_seconds - attempt.catch_up_seconds
        return seconds / plain_seconds, attempt.catch_up_seconds / plain_seconds

    def _expected_steps(self, step: StepRecord, attempt: _Attempt) -> float:
        """What drafting and verifying should have taken, in plain steps."""
        rates, arm = attempt.rates, attempt.arm
        drawing = attempt.num_drawn * arm.token_steps if arm else 0.0
        return drawing + self._costs.seconds(step.width, rates.depth_tokens) / rates.plain_seconds

    # The loop's drafter.

    def propose(self, tokens: Sequence[int], max_tokens: int, keep_going: KeepGoing) -> Draft:
        """The draft of the most value, possibly empty; see `Drafter.propose`. `keep_going` is not asked."""
        depth_tokens = len(tokens) - 1
        # Plain decoding is always to be had: a slow stretch must not make time look cheap.
        speedup = max(1.0, self._speed.tokens / self._speed.plain_steps)
        rates = Rates(self._costs, depth_tokens, speedup, 1 + max_tokens)
        self._attempt = attempt = _Attempt(rates)
        self._judge_shadow(tokens)
        value = rates.plain()
        for arm in self._arms:
            if arm.is_free:
                value = self._ask_free(arm, attempt, value, tokens)
        costly = self._choose_costly(attempt, value, tokens)
        if costly is not None:
            attempt.arm = costly
            attempt.draft = self._draw(costly, attempt, tokens)
        if not attempt.draft.tokens or attempt.arm is None:
            return NO_DRAFT
        self.num_drafts += not attempt.is_probe
        width = 1 + len(attempt.draft.tokens)
        padding = rates.cheapest(width)[0] - width
        return replace(attempt.draft, drafter=attempt.author_name, padding=padding)

    def _ask_free(self, arm: Arm, attempt: _Attempt, value: float, tokens: Sequence[int]) -> float:
        """Takes the arm's draft if it beats `value`; returns the better value."""
        rates = attempt.rates
        draft = arm.drafter.propose(tokens, rates.largest_width - 1, _always)
        if not draft.tokens:
            return value
        self._num_offers += 1
        acceptance = [arm.probability(self.kind, confidence) for confidence in draft.confidences]
        length, draft_value = fastest_cut(rates, acceptance)
        if length == 0 or draft_value <= value:
            self._shadow = self._shadow or _Shadow(arm, len(tokens), draft)
            return value
        attempt.arm, attempt.draft = arm, self._cut(draft, length, draft_value, rates)
        return draft_value

    def _choose_costly(self, attempt: _Attempt, value: float, tokens: Sequence[int]) -> Arm | None:
        """The arm whose record promises more than `value`, or one that is due for a probe."""
        chosen = None
        tokens_left = self._ledger.tokens_left(self.kind, self.gain)
        for arm in self._arms:
            if arm.is_free:
                continue
            self._num_offers += 1
            if best_hope(attempt.rates, arm.token_steps) <= value:
                continue
            behind = arm.behind(tokens)
            promise = arm.promise(self.kind, attempt.rates, behind, tokens_left)
            arm.idle_steps += 1
            if promise > value:
                value, chosen = promise, arm
            elif chosen is None and self._may_probe(arm, behind):
                attempt.is_probe, chosen = True, arm
            if chosen is arm:
                # One token, or two after a draft that was accepted whole, are new in any step.
                attempt.num_behind = max(0, behind - 2)
        if chosen is not None:
            chosen.idle_steps = 0
        return chosen

    def _may_probe(self, arm: Arm, num_behind: int) -> bool:
        return arm.idle_steps >= _PROBE_EVERY and self._ledger.may_try(arm.catch_up_steps * num_behind)

    def _draw(self, arm: Arm, attempt: _Attempt, tokens: Sequence[int]) -> Draft:
        """A draft, token by token, as long as going on is worth it, or until a free drafter takes over."""
        rates = attempt.rates
        max_length = rates.largest_drawn
        usual = arm.tally(self.kind).acceptance
        acceptance: list[float] = []
        going = Going.ON

        def keep_going(confidence: float) -> Going:
            nonlocal going
            if attempt.num_drawn == 0 and attempt.num_behind:
                usual_seconds = arm.token_steps * rates.plain_seconds
                attempt.catch_up_seconds = max(0.0, perf_counter() - start - usual_seconds)
            attempt.num_drawn += 1
            probability = arm.probability(self.kind, confidence)
            going = decide_going(rates, acceptance, probability, usual, max_length, arm.token_steps)
            acceptance.append(probability)
            return going

        start = perf_counter()
        draft, history = NO_DRAFT, list(tokens)
        while going == Going.ON and len(draft.tokens) < max_length:
            drawn = arm.drafter.propose(history, 1, keep_going)
            if not drawn.tokens:
                break
            draft = join(draft, drawn)
            history += drawn.tokens
            tail = self._tail(arm, attempt, acceptance, history)
            if tail.tokens:
                draft = join(draft, tail)
                break
        attempt.draft_seconds = perf_counter() - start
        if not arm.deterministic:
            return draft
        length, value = best_cut(rates, acceptance[: len(draft.tokens)])
        return self._cut(draft, length, value, rates)

    def _tail(self, arm: Arm, attempt: _Attempt, acceptance: list[float], history: Sequence[int]) -> Draft:
        """How a free drafter goes on behind drawn tokens, where that promises more than drawing on.

        It depends on drawn tokens, but only on those that are going to be verified in any case.
        """
        rates, length = attempt.rates, len(acceptance)
        room = rates.largest_width - 1 - length
        for free in self._arms:
            if not free.is_free or room < 1:
                continue
            tail = free.drafter.propose(history, room, _always)
            probabilities = [free.probability(self.kind, confidence) for confidence in tail.confidences]
            best_length, value = best_cut(rates, [*acceptance, *probabilities])
            if best_length <= length:
                continue
            hope = going_on(rates, acceptance, arm.tally(self.kind).acceptance, arm.token_steps)
            if value > hope + _TAIL_GAIN:
                attempt.tail_arm, attempt.num_before_tail = free, length
                acceptance += probabilities[: best_length - length]
                return cut(tail, best_length - length)
        return NO_DRAFT

    def _cut(self, draft: Draft, length: int, value: float, rates: Rates) -> Draft:
        """The best part of a deterministic draft; now and then all of it, to see how it would go on."""
        self._num_cuts += 1
        if self._num_cuts % _WHOLE_DRAFT_EVERY == 0 and self._ledger.may_try():
            # At worst the rest of the draft yields nothing.
            lost = value - rates.value(1.0, len(draft.tokens) + 1)
            self._ledger.probe_steps += max(0.0, lost / rates.speedup)
            return draft
        return cut(draft, length)

    def _judge_shadow(self, tokens: Sequence[int]) -> None:
        """Learns from a draft that was not verified, as soon as the text shows how far it was right."""
        shadow = self._shadow
        if shadow is None:
            return
        real = tokens[shadow.position :]
        agreed = 0
        while (
            agreed < min(len(real), len(shadow.draft.tokens)) and real[agreed] == shadow.draft.tokens[agreed]
        ):
            agreed += 1
        if agreed == len(real) < len(shadow.draft.tokens):
            return  # Right so far, and the text does not reach further yet.
        for position, confidence in enumerate(shadow.draft.confidences[: agreed + 1]):
            shadow.arm.learn(self.kind, confidence, accepted=position < agreed)
        self._shadow = None


def _always(_confidence: float) -> Going:
    return Going.ON
