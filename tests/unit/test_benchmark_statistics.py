"""Ratios of speeds and their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from homespec.benchmark.statistics import Amounts, compare, geometric_mean, speed


def pairs(*rows: tuple[float, float]) -> Amounts:
    return np.array(rows, dtype=float)


def test_a_ratio_is_one_of_sums_and_its_interval_holds_it() -> None:
    ours, base = pairs((10, 1), (10, 4)), pairs((10, 2), (10, 6))
    ratio = compare(ours, base, np.random.default_rng(0))
    assert ratio.value == pytest.approx((20 / 5) / (20 / 8))
    # All prompts the first one, or all the second.
    assert ratio.interval() == pytest.approx((6 / 4, 2.0))
    assert str(ratio) == "1.600 (1.50 to 2.00)"
    assert ratio.describe(2) == "1.60 (1.50 to 2.00)"


def test_an_arm_against_itself_has_no_interval() -> None:
    same = pairs((10, 1), (30, 4), (5, 2))
    assert compare(same, same, np.random.default_rng(0)).interval() == (1.0, 1.0)


def test_a_single_prompt_says_nothing_about_others() -> None:
    ratio = compare(pairs((10, 1)), pairs((10, 2)), np.random.default_rng(0))
    assert ratio.interval() is None
    assert str(ratio) == "2.000"


def test_resampled_prompts_are_the_same_for_both() -> None:
    # Prompts differ a hundredfold, and the arms always by the same factor.
    base = pairs((10, 1), (10, 10), (10, 100))
    ours = base / (1, 2)
    interval = compare(ours, base, np.random.default_rng(0)).interval()
    assert interval == pytest.approx((2.0, 2.0))


def test_geometric_mean() -> None:
    generator = np.random.default_rng(0)
    ratios = [compare(pairs(*[(gain, 1)] * 2), pairs(*[(1, 1)] * 2), generator) for gain in (2, 8)]
    mean = geometric_mean(ratios)
    assert mean.value == pytest.approx(4)
    assert mean.interval() == pytest.approx((4, 4))
    # As long as one scenario has a single prompt, nothing is known about other prompts of its kind.
    mean = geometric_mean([*ratios, compare(pairs((4, 1)), pairs((1, 1)), generator)])
    assert mean.value == pytest.approx(4)
    assert mean.interval() is None


def test_speed() -> None:
    assert speed(pairs((10, 1), (20, 5))) == pytest.approx(5.0)
