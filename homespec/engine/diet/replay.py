"""The speed that the controller would reach along recorded replies, by stored costs: no model runs.

It is the controller itself, with its own lookup, its own cutting and its own learning, over drafts that were
recorded. Times come from the target's cost curve and the draft model's cost, so equal recordings give equal
speeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from homespec.calibration.costs import DrafterCosts
from homespec.calibration.curve import CostCurve, RunningCurve
from homespec.contracts import Going, KeepGoing
from homespec.decoding.replay import replay
from homespec.drafting.arm import Arm
from homespec.drafting.control import Controller
from homespec.drafting.ledger import Ledger
from homespec.drafting.length import Rates, best_hope
from homespec.drafting.suffix import SuffixDrafter
from homespec.engine.diet.recording import Recording, acceptance, run_length
from homespec.engine.settings import AUTO_DRAFT_LENGTH
from homespec.records import NO_DRAFT, Draft

_LONGEST_FIXED = 12


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a drafter is worth for a target.

    Attributes:
        speedup: over plain decoding, of the controller with lookup and the draft model.
        fixed_speedup: with the draft model alone at the best fixed draft length, which may be below 1: it
            tells drafters apart of which the controller uses none.
        fixed_length: that draft length.
        may_pay: whether drafts could be worth their cost if they were nearly always right (`best_hope`).
    """

    speedup: float
    fixed_speedup: float
    fixed_length: int
    may_pay: bool


def expect(curve: CostCurve, costs: DrafterCosts | None, recordings: Sequence[Recording]) -> Expectation:
    """Replays recordings.

    Args:
        curve: of the target.
        costs: of the draft model; None for lookup alone.
        recordings: of the draft model; without costs only their texts count.
    """
    # Twice: what is learned about a kind of text is kept from run to run, and the first time is soon over.
    arms = _Arms(curve, costs)
    ledger = Ledger()
    for _ in range(2):
        tokens = plain_steps = 0.0
        for recording in recordings:
            controller = _replay(arms, ledger, recording)
            tokens += controller.gain.tokens
            plain_steps += controller.gain.plain_steps
    speedup = tokens / plain_steps if plain_steps else 1.0
    if costs is None:
        return Expectation(speedup, 1.0, 0, may_pay=False)
    token_steps, _ = costs.in_plain_steps(curve.plain_seconds)
    rates = Rates(curve, curve.depths_tokens[0], 1.0, 1 + AUTO_DRAFT_LENGTH)
    fixed = [(_fixed_speedup(rates, token_steps, recordings, k), k) for k in range(1, _LONGEST_FIXED + 1)]
    return Expectation(speedup, *max(fixed), may_pay=best_hope(rates, token_steps) > rates.plain())


def _fixed_speedup(rates: Rates, token_steps: float, recordings: Sequence[Recording], length: int) -> float:
    tokens = acceptance(recordings, length).mean_length
    return tokens / (length * token_steps + rates.cheapest(length + 1)[1])


class _RecordedDrafter:
    """Proposes what was recorded, as long as the rule wants it."""

    name = "draft-model"

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._first = recording.passage.num_prompt_tokens
        self._num_read = 0

    def behind(self, tokens: Sequence[int]) -> int:
        return max(0, len(tokens) - self._num_read)

    def propose(self, tokens: Sequence[int], max_tokens: int, keep_going: KeepGoing) -> Draft:
        start = len(tokens) - self._first
        proposals = self._recording.proposals[start : start + max_tokens]
        confidences = self._recording.confidences[start : start + max_tokens]
        drawn = 0
        for confidence in confidences:
            going = keep_going(confidence)
            drawn += going != Going.STOP
            if going != Going.ON:
                break
        # Of the draft, those before the last were read too, and stay as far as they were right.
        num_right = run_length(self._recording.agreed[start : start + max(0, drawn - 1)])
        self._num_read = len(tokens) + num_right
        return Draft(tuple(proposals[:drawn]), None, tuple(confidences[:drawn])) if drawn else NO_DRAFT


class _Arms:
    """What is learned about the drafters from one reply to the next."""

    def __init__(self, curve: CostCurve, costs: DrafterCosts | None) -> None:
        self.curve = RunningCurve(curve)
        self._lookup = Arm(SuffixDrafter())
        self._draft: Arm | None = None
        if costs is not None:
            # Its drafter is put right for each reply.
            token_steps, catch_up_steps = costs.in_plain_steps(curve.plain_seconds)
            self._draft = Arm(SuffixDrafter(), token_steps=token_steps, catch_up_steps=catch_up_steps)

    def of(self, recording: Recording) -> list[Arm]:
        self._lookup.drafter = SuffixDrafter()
        if self._draft is None:
            return [self._lookup]
        drafter = _RecordedDrafter(recording)
        self._draft.drafter, self._draft.behind = drafter, drafter.behind
        return [self._lookup, self._draft]


def _replay(arms: _Arms, ledger: Ledger, recording: Recording) -> Controller:
    passage = recording.passage
    controller = Controller(arms.curve, arms.of(recording), AUTO_DRAFT_LENGTH, ledger, pinned=True)
    controller.kind = passage.kind
    for _ in replay(passage.tokens, passage.num_prompt_tokens, controller, controller):
        pass
    return controller
