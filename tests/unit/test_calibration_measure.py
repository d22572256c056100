"""Measuring a model whose decodes take as long as the test says, on a clock that only they move."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from homespec.calibration.costs import DrafterCosts, TargetCosts
from homespec.calibration.measure import measure_drafter, measure_target
from homespec.contracts import Rows
from homespec.errors import DecodeAbortedError
from tests.support.table_model import Logits, TableModel

Cost = Callable[[int, int], float]


class CostlyModel(TableModel):
    """A table model that moves a clock by `cost(width, depth)` at every decode with logits."""

    cost: Cost
    prefill_seconds = 0.001  # per token
    first_unequal_width = 1 << 30
    abort_after = 1 << 30

    def __init__(self, cost: Cost, context_tokens: int) -> None:
        table = np.random.default_rng(1).normal(size=(9, 9, 8)).astype(np.float32).astype(np.float64)
        super().__init__(table, context_tokens)
        self.cost = cost
        self.now = 0.0
        self.widths: list[tuple[int, int]] = []

    def decode(self, tokens: Sequence[int], rows: Rows = "all") -> Logits:
        if self.num_decodes >= self.abort_after:
            raise DecodeAbortedError("The decode was stopped.")
        depth, width = self.num_cached_tokens, len(tokens)
        logits = super().decode(tokens, rows)
        if rows == "none":
            self.now += width * self.prefill_seconds
            return logits
        self.now += self.cost(width, depth)
        self.widths.append((width, depth))
        return logits + 0.01 * np.arange(8) if width >= self.first_unequal_width else logits


def measured(model: CostlyModel, **changes: Any) -> TargetCosts:
    arguments: dict[str, Any] = {
        "widths": range(1, 17),
        "depths_tokens": (64, 1024),
        "budget_seconds": 100.0,
        "clock": lambda: model.now,
    }
    return measure_target(model, **(arguments | changes))


def cost(width: int, depth: int) -> float:
    """Even widths are cheaper; every row pays for the depth."""
    return 0.01 * (1 + width + 3 * (width % 2)) + 1e-6 * width * depth


def test_the_curve_is_what_decodes_cost() -> None:
    model = CostlyModel(cost, 4096)
    shares: list[float] = []
    costs = measured(model, progress=shares.append)
    assert costs.curve.widths == tuple(range(1, 17))
    assert costs.curve.depths_tokens == (64, 1024)
    for width in costs.curve.widths:
        for depth in (64, 1024):
            assert costs.curve.seconds(width, depth) == pytest.approx(cost(width, depth))
    assert costs.prefill_tokens_per_second == pytest.approx(1000)
    assert model.num_cached_tokens == 0
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert all(0 <= share <= 1 for share in shares)


class LargeVocabulary(CostlyModel):
    """Gives the same rows for every token, out of one array that every decode writes anew, as llama.cpp's."""

    vocab_size = 20_000

    def __init__(self) -> None:
        super().__init__(cost, 4096)
        self.logits = np.zeros((16, self.vocab_size))

    def decode(self, tokens: Sequence[int], rows: Rows = "all") -> Logits:
        self.now += len(tokens) * self.prefill_seconds
        self.cached_tokens.extend(tokens)
        logits = self.logits[: len(tokens) if rows == "all" else 0]
        logits[:] = np.random.default_rng(len(tokens)).normal(size=self.vocab_size)
        return logits


def test_a_measurement_keeps_one_copy_of_the_rows() -> None:
    """What the planner counts with; both depths, with rows that differ from width to width."""
    model = LargeVocabulary()
    tracemalloc.start()
    try:
        costs = measured(model)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len({found.depth_tokens for found in costs.width_equality}) == 2
    assert not any(found.bitwise for found in costs.width_equality)
    assert peak_bytes < (16 * 4 + 8 * 8) * model.vocab_size


def test_disturbed_decodes_do_not_show() -> None:
    chance = random.Random(1)
    model = CostlyModel(lambda width, depth: cost(width, depth) * (10 if chance.random() < 0.1 else 1), 4096)
    curve = measured(model, max_samples=9).curve
    for width in curve.widths:
        assert curve.seconds(width, 64) == pytest.approx(cost(width, 64))


def test_short_budgets_keep_small_and_round_widths() -> None:
    model = CostlyModel(lambda width, depth: 0.1 * width, 4096)
    costs = measured(model, budget_seconds=20.0)
    kept = costs.curve.widths
    assert set(range(1, 9)) <= set(kept)
    assert 16 in kept
    assert len(kept) < 16
    assert model.now < 24
    for width in kept:
        assert len([1 for w, depth in model.widths if w == width and depth == 64]) >= 2


def test_hardly_any_budget_still_gives_a_curve() -> None:
    model = CostlyModel(lambda width, depth: 2.0 * width, 4096)
    model.prefill_seconds = 0.5
    costs = measured(model, budget_seconds=5.0)
    assert costs.curve.widths == (1, 2)
    assert costs.curve.depths_tokens[0] == costs.curve.depths_tokens[1]
    assert model.now < 40


@pytest.mark.parametrize("context_tokens", [16, 64, 300, 700])
def test_small_contexts(context_tokens: int) -> None:
    model = CostlyModel(cost, context_tokens)
    curve = measured(model).curve
    near, far = curve.depths_tokens
    assert near <= context_tokens // 4
    assert far + curve.widths[-1] <= context_tokens
    assert near + curve.widths[-1] <= context_tokens
    assert curve.seconds(1, near) == pytest.approx(cost(1, near))


def test_width_equality() -> None:
    model = CostlyModel(cost, 4096)
    model.first_unequal_width = 5
    costs = measured(model)
    assert costs.equal_widths(100) == costs.equal_widths(3000) == {1, 2, 3, 4}
    for result in costs.width_equality:
        assert result.bitwise == (result.width < 5)
        assert (result.max_total_variation == 0) == result.bitwise
    assert {result.depth_tokens for result in costs.width_equality} == {64, 1024}


def test_an_abort_goes_through_and_leaves_the_cache_empty() -> None:
    model = CostlyModel(cost, 4096)
    model.abort_after = 30
    with pytest.raises(DecodeAbortedError):
        measured(model)
    assert model.num_cached_tokens == 0


@pytest.mark.parametrize("budget_seconds", [0.0, 100.0])
def test_a_drafter(budget_seconds: float) -> None:
    model = CostlyModel(cost, 256)
    costs = measure_drafter(model, budget_seconds=budget_seconds, clock=lambda: model.now)
    expected = DrafterCosts(cost(1, 64), cost(2, 64), 1000.0)
    assert costs.seconds_per_token == pytest.approx(expected.seconds_per_token)
    assert costs.catch_up_seconds == pytest.approx(expected.catch_up_seconds)
    assert costs.prefill_tokens_per_second == pytest.approx(expected.prefill_tokens_per_second)
    assert model.num_cached_tokens == 0


def test_drafting_counts_the_second_token_that_some_drafts_begin_with() -> None:
    costs = DrafterCosts(seconds_per_token=0.02, catch_up_seconds=0.04, prefill_tokens_per_second=100.0)
    assert costs.seconds_per_token < costs.drafting_seconds < 0.03
    # Noise may make the wider decode look cheaper; it never makes drafting so.
    assert replace(costs, catch_up_seconds=0.01).drafting_seconds == 0.02
