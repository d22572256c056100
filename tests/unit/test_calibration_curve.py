from __future__ import annotations

import itertools
import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.calibration.costs import DrafterCosts, TargetCosts, WidthEquality
from homespec.calibration.curve import CostCurve, RunningCurve
from homespec.contracts import CostModel

CURVE = CostCurve((1, 2, 4, 8), (100, 200), (1.0, 1.5, 3.0, 2.0), (1.1, 1.7, 3.4, 2.8))


@st.composite
def curves(draw: st.DrawFn) -> CostCurve:
    widths = (1, *sorted(draw(st.sets(st.integers(2, 40), max_size=12))))
    times = st.lists(st.floats(1e-4, 1e2), min_size=len(widths), max_size=len(widths)).map(tuple)
    near = draw(st.integers(0, 500))
    return CostCurve(widths, (near, near + draw(st.integers(0, 5000))), draw(times), draw(times))


def test_what_was_measured_is_answered() -> None:
    assert [CURVE.seconds(width, 100) for width in CURVE.widths] == [1.0, 1.5, 3.0, 2.0]
    assert [CURVE.seconds(width, 200) for width in CURVE.widths] == [1.1, 1.7, 3.4, 2.8]


def test_lines_between_and_beyond() -> None:
    assert CURVE.seconds(3, 100) == pytest.approx(2.25)
    assert CURVE.seconds(1, 150) == pytest.approx(1.05)
    assert CURVE.seconds(1, 1100) == pytest.approx(2.0)
    assert CURVE.seconds(1, 0) == pytest.approx(0.9)
    # The last slope falls: a wider decode is not taken to be as cheap because of that.
    assert CURVE.seconds(12, 100) == pytest.approx(2.0 + 4 / 7)
    rising = CostCurve((1, 2, 4), (64, 64), (1.0, 1.5, 2.5), (1.0, 1.5, 2.5))
    assert rising.seconds(10, 3000) == pytest.approx(5.5)


def test_a_single_width_counts_for_each_token() -> None:
    curve = CostCurve((1,), (8, 8), (0.5,), (0.5,))
    assert curve.seconds(4, 100) == 2.0


@given(curves(), st.integers(1, 64), st.integers(0, 10_000))
def test_times_are_positive(curve: CostCurve, width: int, depth: int) -> None:
    assert 0 < curve.seconds(width, depth) < math.inf


@given(curves(), st.integers(0, 10_000))
def test_between_two_widths_lies_between_their_times(curve: CostCurve, depth: int) -> None:
    for left, right in itertools.pairwise(curve.widths):
        ends = sorted((curve.seconds(left, depth), curve.seconds(right, depth)))
        for width in range(left, right + 1):
            assert ends[0] * (1 - 1e-9) <= curve.seconds(width, depth) <= ends[1] * (1 + 1e-9)


@given(curves())
def test_json_round_trip(curve: CostCurve) -> None:
    assert CostCurve.from_json(json.loads(json.dumps(curve.to_json()))) == curve


@pytest.mark.parametrize(
    "change",
    [
        {"widths": [2, 4, 5, 8]},
        {"widths": [1, 4, 2, 8]},
        {"widths": []},
        {"shallow_seconds": [1, 2, 3]},
        {"deep_seconds": [1, 2, 3, 0]},
        {"deep_seconds": [1, 2, 3, math.nan]},
        {"depths_tokens": [200, 100]},
        {"depths_tokens": [1]},
        {"widths": None},
    ],
)
def test_what_is_no_curve(change: dict[str, object]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        CostCurve.from_json(CURVE.to_json() | change)


class TestRunning:
    def test_it_is_a_cost_model_and_begins_with_the_stored_curve(self) -> None:
        model: CostModel = RunningCurve(CURVE)
        assert model.seconds(3, 150) == CURVE.seconds(3, 150)

    def test_it_converges_to_other_ratios_per_width(self) -> None:
        running, noise = RunningCurve(CURVE), random.Random(1)
        truth = {1: 1.2, 2: 0.8, 4: 2.5}
        for width in noise.choices(list(truth), k=600):
            ratio = truth[width] * math.exp(noise.gauss(0, 0.05))
            running.observe(width, 150, ratio * CURVE.seconds(width, 150))
        for width, ratio in truth.items():
            assert running.seconds(width, 150) == pytest.approx(ratio * CURVE.seconds(width, 150), rel=0.06)

    def test_widths_that_were_not_seen_inherit_what_all_share(self) -> None:
        running = RunningCurve(CURVE)
        for width in [1, 2, 4] * 100:
            running.observe(width, 100, 1.6 * CURVE.seconds(width, 100))
        assert running.seconds(8, 100) == pytest.approx(1.6 * CURVE.seconds(8, 100), rel=0.02)

    def test_throttling_seen_at_one_width_reaches_the_others(self) -> None:
        running = RunningCurve(CURVE)
        for width in [1, 2, 4] * 50:
            running.observe(width, 100, CURVE.seconds(width, 100))
        for _ in range(40):
            running.observe(1, 100, 2 * CURVE.seconds(1, 100))
        assert running.seconds(4, 100) > 1.2 * CURVE.seconds(4, 100)

    def test_outliers_hardly_matter(self) -> None:
        running, noise = RunningCurve(CURVE), random.Random(2)
        for _ in range(300):
            factor = 100.0 if noise.random() < 0.03 else 1.0
            running.observe(4, 100, factor * CURVE.seconds(4, 100))
        assert running.seconds(4, 100) < 1.2 * CURVE.seconds(4, 100)

    @pytest.mark.parametrize("seconds", [0.0, -1.0, math.inf, math.nan])
    def test_no_duration_is_no_observation(self, seconds: float) -> None:
        running = RunningCurve(CURVE)
        running.observe(2, 100, seconds)
        assert running.seconds(2, 100) == CURVE.seconds(2, 100)

    def test_what_was_learned_can_be_kept(self) -> None:
        running = RunningCurve(CURVE)
        for _ in range(50):
            running.observe(2, 100, 1.4 * CURVE.seconds(2, 100))
        later = RunningCurve(CURVE)
        later.recall(json.loads(json.dumps(running.to_json())))
        for width, depth in itertools.product(CURVE.widths, CURVE.depths_tokens):
            assert later.seconds(width, depth) == running.seconds(width, depth)
        running.observe(4, 100, 1.0)
        later.observe(4, 100, 1.0)
        assert later.seconds(2, 100) == running.seconds(2, 100)

    def test_plans_heed_what_is_usual_and_not_the_last_moment(self) -> None:
        running = RunningCurve(CURVE)
        assert running.usual_plain_seconds(150) == CURVE.seconds(1, 150)
        running.observe(4, 150, 1.4 * CURVE.seconds(4, 150))
        assert running.usual_plain_seconds(150) == running.seconds(1, 150) > CURVE.seconds(1, 150)
        for factor in [0.8] * 300 + [1.3] * 12:
            running.observe(1, 150, factor * CURVE.seconds(1, 150))
        assert running.seconds(1, 150) > 1.1 * CURVE.seconds(1, 150)
        assert running.usual_plain_seconds(150) == pytest.approx(0.8 * CURVE.seconds(1, 150), rel=0.04)
        later = RunningCurve(CURVE)
        later.recall(json.loads(json.dumps(running.to_json())))
        assert later.usual_plain_seconds(150) == running.usual_plain_seconds(150)

    @pytest.mark.parametrize(
        "data",
        [
            {},
            {"shared": math.nan, "usual_plain": 0, "widths": []},
            {"shared": 0, "usual_plain": math.inf, "widths": []},
            {"shared": 0, "usual_plain": 0, "widths": [[1, math.inf, 1]]},
        ],
    )
    def test_what_cannot_have_been_learned_changes_nothing(self, data: dict[str, object]) -> None:
        running = RunningCurve(CURVE)
        with pytest.raises((ValueError, KeyError, TypeError)):
            running.recall(data)
        assert running.seconds(2, 100) == CURVE.seconds(2, 100)


def test_equality_behind_the_first_block_must_be_proven_there() -> None:
    def costs(*results: tuple[int, int, bool]) -> TargetCosts:
        return TargetCosts(CURVE, 10.0, tuple(WidthEquality(*result, 0.0) for result in results))

    both = costs(
        (2, 64, True), (3, 64, True), (4, 64, False), (2, 600, True), (3, 600, False), (8, 600, True)
    )
    assert both.equal_widths(200) == {1, 2, 3}
    assert both.equal_widths(1000) == {1, 2, 8}
    assert costs((2, 64, True)).equal_widths(1000) == {1}
    assert costs().equal_widths(10) == {1}


def test_costs_round_trip() -> None:
    target = TargetCosts(CURVE, 10.0, (WidthEquality(2, 64, False, 0.25),))
    assert TargetCosts.from_json(json.loads(json.dumps(target.to_json()))) == target
    drafter = DrafterCosts(0.1, 0.15, 99.0)
    assert DrafterCosts.from_json(json.loads(json.dumps(drafter.to_json()))) == drafter
