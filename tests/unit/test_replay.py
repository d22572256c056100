"""What the controller would make of recorded drafts, by made-up costs."""

from __future__ import annotations

import numpy as np
import pytest

from homespec.calibration.costs import DrafterCosts
from homespec.calibration.curve import CostCurve
from homespec.engine.diet.passages import Passage
from homespec.engine.diet.recording import Recording
from homespec.engine.diet.replay import expect

WIDTHS = (1, 2, 4, 8, 16, 32, 64)


def curve(slope: float) -> CostCurve:
    """A plain step takes a second, and each further token of a decode so much more."""
    seconds = tuple(1 + slope * (width - 1) for width in WIDTHS)
    return CostCurve(WIDTHS, (64, 64), seconds, seconds)


def costs(token_seconds: float) -> DrafterCosts:
    return DrafterCosts(token_seconds, 2 * token_seconds, 1e6)


def recordings(right: float, num_replies: int = 6, num_tokens: int = 200) -> list[Recording]:
    """Replies of random tokens, in which lookup finds nothing, with so large a share of right proposals."""
    rng = np.random.default_rng(1)
    made = []
    for number in range(num_replies):
        tokens = tuple(rng.integers(0, 1 << 30, 20 + num_tokens).tolist())
        agreed = rng.random(num_tokens) < right
        proposals = tuple(
            token if good else -1 for token, good in zip(tokens[20:], agreed.tolist(), strict=True)
        )
        passage = Passage(("code", "prose")[number % 2], False, tokens, 20)
        made.append(Recording(passage, proposals, tuple(np.where(agreed, 0.95, 0.3).tolist())))
    return made


def test_a_perfect_drafter_for_nothing_approaches_what_a_wide_decode_saves() -> None:
    # 200 tokens with drafts of at most 31 drawn tokens: 1 + 31 in a step that costs one, and drafting.
    token_seconds = 0.001
    bound = 32 / (1 + 31 * token_seconds)
    found = expect(curve(0.0), costs(token_seconds), recordings(1.0))
    assert 0.7 * bound < found.speedup <= bound
    assert found.fixed_length == 12
    assert found.fixed_speedup == pytest.approx(13 / (1 + 12 * costs(token_seconds).drafting_seconds))
    assert found.may_pay


@pytest.mark.parametrize("slope", [0.05, 0.2, 0.45])
def test_a_perfect_drafter_reaches_most_of_its_best_fixed_length(slope: float) -> None:
    token_seconds = 0.1
    best = max((1 + k) / (1 + slope * k + token_seconds * k) for k in range(1, 32))
    found = expect(curve(slope), costs(token_seconds), recordings(1.0))
    assert 0.85 * best < found.speedup <= best * 1.001


def test_a_drafter_that_is_always_wrong_costs_a_few_tries() -> None:
    replies = recordings(0.0)
    found = expect(curve(0.2), costs(0.1), replies)
    alone = expect(curve(0.2), None, replies)
    assert alone.speedup == 1.0
    assert 0.95 < found.speedup <= alone.speedup
    # Alone at a fixed length it could only lose.
    assert found.fixed_length == 1
    assert found.fixed_speedup == pytest.approx(1 / (costs(0.1).drafting_seconds + 1.2))
    assert found.may_pay


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_a_drafter_too_dear_to_pay_is_never_asked(right: float) -> None:
    replies = recordings(right)
    found = expect(curve(1.0), costs(1.0), replies)
    assert found.speedup == expect(curve(1.0), None, replies).speedup == 1.0
    assert not found.may_pay


def test_lookup_copies_what_repeats_without_any_draft_model() -> None:
    rng = np.random.default_rng(2)
    block = rng.integers(0, 1 << 30, 50).tolist()
    passage = Passage("code", False, tuple(block * 5), 50)
    silent = [Recording(passage, (), ())]
    assert expect(curve(0.1), None, silent).speedup > 2
    # A hopeless draft model beside it changes nothing.
    wrong = [Recording(passage, (-1,) * 200, (0.1,) * 200)]
    assert expect(curve(0.1), costs(2.0), wrong).speedup == expect(curve(0.1), None, silent).speedup


def test_better_drafters_are_expected_to_be_faster() -> None:
    speedups = [expect(curve(0.2), costs(0.1), recordings(right)).speedup for right in (0.3, 0.6, 0.9)]
    assert speedups == sorted(speedups)
    assert speedups[-1] > 1.2 * speedups[0]
    dear = expect(curve(0.2), costs(0.3), recordings(0.9))
    assert dear.speedup < speedups[-1]


def test_equal_recordings_give_equal_speeds() -> None:
    assert expect(curve(0.2), costs(0.1), recordings(0.7)) == expect(curve(0.2), costs(0.1), recordings(0.7))


def test_no_replies_promise_nothing() -> None:
    assert expect(curve(0.2), None, []).speedup == 1.0
    assert expect(curve(0.2), costs(0.1), []).speedup == 1.0
