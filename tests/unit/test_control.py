"""What the controller chooses, on made-up costs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.contracts import Going, KeepGoing
from homespec.drafting.acceptance import AcceptanceModel
from homespec.drafting.arm import Arm
from homespec.drafting.control import Controller, _Attempt
from homespec.drafting.draft_model import DraftModelDrafter
from homespec.drafting.ledger import Gain, Ledger, Tally
from homespec.drafting.length import Rates, best_cut, fastest_cut
from homespec.records import Draft, SamplingParams, StepRecord
from homespec.sampling import make_sampling
from tests.support.made_up_costs import MadeUpCosts, flat, pinned, seconds_of, steep, typical
from tests.support.ngram import NgramDrafter
from tests.support.scripted import make_reply, run
from tests.support.table_model import TableModel

GREEDY = SamplingParams(temperature=0)


class Oracle:
    """Knows the text; each proposed token is right with a given probability, and it knows that too."""

    name = "oracle"

    def __init__(
        self, text: Sequence[int], start: int, rightness: float, vocab: int, claim: float | None = None
    ) -> None:
        self._text, self._start, self._rightness, self._vocab = text, start, rightness, vocab
        self._claim = rightness if claim is None else claim
        self._random = random.Random(1)

    def propose(self, tokens: Sequence[int], max_tokens: int, keep_going: KeepGoing) -> Draft:
        found: list[int] = []
        for token in self._text[len(tokens) - self._start :][:max_tokens]:
            going = keep_going(self._claim)
            if not going:
                break
            right = self._random.random() < self._rightness
            found.append(token if right else (token + 1) % self._vocab)
            if going == Going.LAST:
                break
        return Draft(tuple(found), None, (self._claim,) * len(found))


def oracle_run(
    rightness: float,
    curve: Callable[[int], float],
    *,
    token_seconds: float = 0.0,
    claim: float | None = None,
    count: int = 600,
) -> tuple[list[StepRecord], Controller]:
    target, prompt = TableModel.random(3, 8), [1, 2]
    text = list(prompt)
    for _ in range(count + 20):
        text.append(int(target.next_logits(text).argmax()))
    oracle = Oracle(text[2:], 2, rightness, 8, claim)
    oracle.name = "draft-model" if token_seconds else "free"
    controller = pinned(curve, Arm(oracle, token_steps=token_seconds), max_length=10)
    reply = make_reply(
        prompt, make_sampling(GREEDY).verifier, drafter=controller, lengths=controller, max_tokens=count
    )
    steps = run(target, reply)
    assert reply.tokens == text[: 2 + count]
    return steps, controller


def test_a_perfect_drafter_at_no_cost_is_used_to_the_full() -> None:
    steps, _ = oracle_run(1.0, flat)
    assert seconds_of(steps, flat) < 600 / 10


@pytest.mark.parametrize("token_seconds", [0.0, 0.4])
def test_where_nothing_pays_decoding_is_plain(token_seconds: float) -> None:
    steps, _ = oracle_run(0.5, steep, token_seconds=token_seconds, claim=0.9)
    # The drafter boasts; the controller finds out, and its probes stay cheap.
    assert seconds_of(steps, steep, token_seconds) < 1.03 * 600


@pytest.mark.parametrize("rightness", [0.2, 0.5, 0.8, 0.95, 1.0])
@pytest.mark.parametrize("token_seconds", [0.0, 0.2, 0.46])
@pytest.mark.parametrize("curve", [flat, typical])
def test_close_to_the_best_fixed_length(
    rightness: float, token_seconds: float, curve: Callable[[int], float]
) -> None:
    def expected_speed(length: int) -> float:
        tokens = sum(rightness**position for position in range(length + 1))
        return tokens / (curve(length + 1) + length * token_seconds)

    best = max(expected_speed(length) for length in range(11))
    steps, _ = oracle_run(rightness, curve, token_seconds=token_seconds, count=2000)
    assert 2000 / seconds_of(steps, curve, token_seconds) > 0.93 * best


def test_a_jump_in_the_curve_is_stepped_over_or_stopped_at() -> None:
    steps, _ = oracle_run(0.97, lambda width: 1.0 if width <= 5 else 9.0)
    widths = [step.width for step in steps]
    assert widths.count(5) > 0.8 * len(widths)


def even_widths_only(width: int) -> float:
    """Like a Q8_0 target: an odd width is as dear as twice the width."""
    return 1 + 0.2 * (width - 1) + (2.0 if width % 2 and width > 1 else 0)


class TwoAtATime(Oracle):
    """Never knows more than two tokens."""

    def propose(self, tokens: Sequence[int], max_tokens: int, keep_going: KeepGoing) -> Draft:
        return super().propose(tokens, min(2, max_tokens), keep_going)


def test_a_decode_is_padded_where_a_wider_one_costs_less() -> None:
    target, prompt = TableModel.random(3, 8), [1, 2]
    text = list(prompt)
    for _ in range(200):
        text.append(int(target.next_logits(text).argmax()))
    controller = pinned(even_widths_only, Arm(TwoAtATime(text[2:], 2, 0.9, 8)), max_length=10)
    reply = make_reply(
        prompt, make_sampling(GREEDY).verifier, drafter=controller, lengths=controller, max_tokens=150
    )
    steps = run(target, reply)
    assert reply.tokens == text[:152]
    assert {(step.num_draft_tokens, step.width) for step in steps[1:-2]} == {(2, 4)}
    # There is no room for padding where a reply must end.
    assert controller.propose(text[:9], 2, lambda _confidence: Going.ON).padding == 0


def test_padding_stays_within_what_may_be_decoded() -> None:
    steps, _ = oracle_run(1.0, lambda width: 1.0 if width in (1, 11) else 0.9 * width, count=25)
    assert max(step.width for step in steps) <= 11
    assert sum(len(step.tokens) for step in steps) == 25


def test_the_gain_of_each_kind_of_text_is_kept() -> None:
    ledger = Ledger()
    for _ in range(400):
        ledger.gain("code").add(3, 2.0)
        ledger.gain("chat").add(1, 1.0)
    assert ledger.gains["code"].speedup == pytest.approx(1.5, rel=0.05)
    assert ledger.gains["chat"].speedup == pytest.approx(1.0)
    for _ in range(4000):
        ledger.gain("code").add(1, 1.0)
    assert ledger.gains["code"].speedup == pytest.approx(1.0, rel=0.1)


def test_pinned_runs_repeat() -> None:
    first, _ = oracle_run(0.8, typical, token_seconds=0.2)
    second, _ = oracle_run(0.8, typical, token_seconds=0.2)
    assert [step.width for step in first] == [step.width for step in second]


@given(
    acceptance=st.lists(st.floats(0.01, 0.99), max_size=8),
    costs=st.lists(st.floats(0.1, 5.0), min_size=9, max_size=9),
    speed=st.floats(0.1, 5.0),
)
def test_the_cut_is_the_best_of_all(acceptance: list[float], costs: list[float], speed: float) -> None:
    rates = Rates(MadeUpCosts(lambda width: costs[width - 1]), 0, speed, 9)

    def value(length: int) -> float:
        survival, tokens = 1.0, 1.0
        for probability in acceptance[:length]:
            survival *= probability
            tokens += survival
        cost = 1.04 * min(costs[length:]) if length else costs[0]
        return tokens - speed * cost / costs[0]

    length, found = best_cut(rates, acceptance)
    assert found == pytest.approx(max(value(n) for n in range(len(acceptance) + 1)))
    assert value(length) == pytest.approx(found)


def test_of_a_free_draft_the_fastest_part_is_taken() -> None:
    rates = Rates(MadeUpCosts(lambda width: {1: 1.0, 2: 1.5, 3: 1.8}.get(width, 5.0)), 0, 1.0, 9)
    # Eight would yield more beyond plain decoding in this one step; two at a time are faster in the end.
    assert best_cut(rates, [0.9] * 8)[0] == 8
    assert fastest_cut(rates, [0.9] * 8)[0] == 2
    assert fastest_cut(rates, [0.3] * 8) == (0, rates.plain())
    assert fastest_cut(rates, []) == (0, rates.plain())


def test_a_disturbed_step_is_not_held_against_a_drafter() -> None:
    arm = Arm(Oracle([], 0, 1.0, 8), token_steps=0.2)
    controller = Controller(MadeUpCosts(flat), [arm], 6)
    speeds = []
    for draft_seconds in (1.0, 50.0):
        controller._attempt = _Attempt(Rates(MadeUpCosts(flat), 10, 1.0, 7), arm, num_drawn=5)
        controller._attempt.draft_seconds = draft_seconds
        step = StepRecord((1,) * 6, 5, 5, "draft-model", 6, draft_seconds, 1.0, 0.0)
        controller.observe(step)
        tally = arm.tallies[""]
        speeds.append(tally.tokens / tally.plain_steps)
    assert speeds[1] > 0.5 * speeds[0]
    assert arm.token_steps < 0.3


class Copier:
    """Knows the text where it is a copy, and nothing elsewhere."""

    name = "free"

    def __init__(self, text: Sequence[int], copied: Sequence[range]) -> None:
        self._text, self._copied = text, copied

    def propose(self, tokens: Sequence[int], max_tokens: int, keep_going: KeepGoing) -> Draft:
        place = next((part for part in self._copied if len(tokens) in part), range(0))
        found = tuple(self._text[len(tokens) : min(place.stop, len(tokens) + max_tokens)])
        return Draft(found, None, (0.97,) * len(found))


def steps_with_copies(
    copied: Sequence[range], num_tokens: int, max_length: int
) -> tuple[list[StepRecord], list[int], list[int]]:
    """A reply with a free copier and a good draft model: its steps, its tokens, and the true ones."""
    target, prompt = TableModel.random(3, 8), [1, 2]
    text = list(prompt)
    for _ in range(num_tokens + 200):
        text.append(int(target.next_logits(text).argmax()))
    model = Oracle(text[2:], 2, 0.95, 8)
    model.name = "draft-model"
    controller = pinned(flat, Arm(Copier(text, copied)), Arm(model, token_steps=0.2), max_length=max_length)
    reply = make_reply(
        prompt, make_sampling(GREEDY).verifier, drafter=controller, lengths=controller, max_tokens=num_tokens
    )
    return run(target, reply), reply.tokens, text


def test_a_free_drafter_goes_on_where_a_draft_model_leads_into_a_copy() -> None:
    # The copies begin where no step of the loop is likely to end by itself.
    copied = [range(start, start + 12) for start in range(13, 390, 20)]
    steps, tokens, text = steps_with_copies(copied, num_tokens=380, max_length=20)
    mixed = [step for step in steps if step.drafter == "draft-model+free"]
    assert len(mixed) > 5
    # Both parts of such drafts are right most of the time.
    assert sum(step.num_accepted_tokens for step in mixed) > 6 * len(mixed)
    assert tokens == text[: len(tokens)]


def test_short_replies_do_not_pay_for_reading_a_long_prompt() -> None:
    rates = Rates(MadeUpCosts(typical), 300, 1.0, 7)
    arm = Arm(Oracle([], 0, 1.0, 8), token_steps=0.1, catch_up_steps=0.08)
    arm.tallies["code"] = Tally(60.0, 300.0, 200.0, accepted=95.0, judged=100.0)
    short, long = Gain(), Gain()
    for _ in range(20):
        short.replies, long.replies = short.replies + 1, long.replies + 1
        short.add(30, 30.0)
        long.add(300, 300.0)

    def promise(usual: Gain, reply: Gain) -> float:
        tokens_left = Ledger(gains={"code": usual}).tokens_left("code", reply)
        return arm.promise("code", rates, 300, tokens_left)

    nothing = Gain(0.0, 0.0)
    assert promise(short, nothing) < rates.plain()
    assert promise(long, nothing) > rates.plain()
    # Near the expected end it no longer pays to begin.
    assert promise(long, Gain(290.0, 290.0)) < rates.plain()


def test_what_free_drafts_write_is_not_left_for_a_draft_model() -> None:
    gain, ledger = Gain(), Ledger()
    ledger.gains["code"] = gain
    for _ in range(20):
        gain.replies += 1
        gain.add(60, 60.0)
        gain.add(240, 24.0, 240)
    left = ledger.tokens_left("code", Gain(0.0, 0.0))
    assert left == pytest.approx(65, abs=3)
    # A burst of copying takes nothing from it.
    assert ledger.tokens_left("code", Gain(200.0, 20.0, free_tokens=200.0)) == left


def test_given_text_is_taken_to_be_copied_until_replies_show_otherwise() -> None:
    ledger, nothing = Ledger(), Gain(0.0, 0.0)
    usual = ledger.tokens_left("code", nothing)
    assert ledger.tokens_left("editing", nothing) < 0.5 * usual
    # At a temperature less of it is.
    assert ledger.tokens_left("editing, sampled", nothing) == usual
    for _ in range(20):
        ledger.gain("editing").replies += 1
        ledger.gain("editing").add(200, 200.0)
    assert ledger.tokens_left("editing", nothing) == pytest.approx(200, abs=10)


def test_a_try_with_a_long_prompt_waits_until_its_cost_is_small() -> None:
    ledger = Ledger(probe_steps=0.0, total_steps=1000.0)
    assert ledger.may_try(7.0)
    # Reading 400 tokens takes 26 plain steps: 2.6% of all that was done so far.
    assert not ledger.may_try(26.0)
    ledger.total_steps = 4000.0
    assert ledger.may_try(26.0)
    ledger.probe_steps += 26.0
    assert not ledger.may_try(26.0)


def test_fast_copying_does_not_make_a_draft_model_look_slow() -> None:
    copied = [range(start, start + 100) for start in range(100, 1000, 200)]
    steps, _, _ = steps_with_copies(copied, num_tokens=1000, max_length=10)
    # What is no copy is nearly all drafted by the model, as it would be if there were no copies.
    assert sum(step.drafter == "none" for step in steps) < 20
    assert sum(step.drafter == "draft-model" for step in steps) > 50


@pytest.mark.parametrize(("claim", "truth"), [(0.9, 0.5), (0.6, 0.9), (0.5, 0.5), (0.99, 0.8)])
def test_acceptance_is_learned_whatever_the_drafter_claims(claim: float, truth: float) -> None:
    model, rng = AcceptanceModel(), random.Random(0)
    for _ in range(800):
        model.learn(claim, rng.random() < truth)
    assert model.probability(claim) == pytest.approx(truth, abs=0.08)


def test_acceptance_rises_with_confidence() -> None:
    model, rng = AcceptanceModel(), random.Random(0)
    for _ in range(2000):
        confidence = rng.random()
        model.learn(confidence, rng.random() < confidence**2)
    found = [model.probability(confidence) for confidence in (0.1, 0.3, 0.5, 0.7, 0.9)]
    assert found == sorted(found)
    assert found[1] < 0.2
    assert found[4] > 0.6


def test_a_rejected_shadow_teaches_without_being_verified() -> None:
    # Verifying is too dear to ever pay for a drafter that is wrong; that it is wrong is learned all the same.
    steps, controller = oracle_run(0.1, typical, claim=0.9)
    assert sum(step.num_draft_tokens > 0 for step in steps) < 20
    assert controller.num_drafts < 20


def test_a_draft_model_is_not_asked_for_what_it_will_not_verify() -> None:
    target = TableModel.random(3, 8)
    model = target.near_copy(1, spread=5.0)
    drafter = DraftModelDrafter(model, make_sampling(GREEDY).picker, lambda _token: False)
    controller = pinned(typical, Arm(drafter, token_steps=0.5), max_length=6)
    reply = make_reply(
        [1, 2], make_sampling(GREEDY).verifier, drafter=controller, lengths=controller, max_tokens=800
    )
    steps = run(target, reply)
    assert seconds_of(steps, typical) + 0.5 * model.num_decodes < 1.04 * 800


def test_a_draft_model_that_could_not_pay_if_it_were_perfect_is_never_asked() -> None:
    steps, _ = oracle_run(1.0, steep, token_seconds=0.3)
    assert all(step.width == 1 for step in steps[1:])


def test_reading_a_prompt_on_a_hope_weighs_more_than_on_a_record() -> None:
    rates = Rates(MadeUpCosts(flat), 64, 1.0, 8)

    def relative_cost(arm: Arm) -> float:
        """What being 100 tokens behind takes off the promise, in steps of the arm's usual yield."""
        lost = arm.promise("code", rates, 0, 160.0) - arm.promise("code", rates, 100, 160.0)
        return lost / step_tokens

    step_tokens = 3.0
    arm = Arm(NgramDrafter(1, 2), token_steps=0.2, catch_up_steps=0.05)
    untried = relative_cost(arm)
    for _ in range(500):
        arm.tally("code").add(3, 2.0)
    assert untried == pytest.approx(2 * 100 * 0.05 / 160)
    assert untried / 2 < relative_cost(arm) < 0.75 * untried
