"""Probability, draw and residual on sparse supports."""

from __future__ import annotations

import numpy as np
import pytest

from homespec.records import Draft, TokenDistribution
from homespec.sampling.distributions import (
    draw,
    full_support,
    one_hot,
    probability,
    proposal,
    residual,
)

HIGHEST_UNIFORM = 1.0 - 2.0**-53


def sparse(**probs: float) -> TokenDistribution:
    """`sparse(t2=0.5, t7=0.5)`."""
    ids = np.array([int(name[1:]) for name in probs], dtype=np.int64)
    return TokenDistribution(ids, np.array(list(probs.values())))


def full(*probs: float) -> TokenDistribution:
    return TokenDistribution(full_support(len(probs)), np.array(probs))


def dense(distribution: TokenDistribution, size: int) -> list[float]:
    return [probability(distribution, token) for token in range(size)]


def test_probability_is_zero_outside_the_support() -> None:
    assert dense(sparse(t1=0.25, t3=0.75), 5) == [0, 0.25, 0, 0.75, 0]


def test_full_support_is_shared_and_read_only() -> None:
    assert full_support(5) is full_support(5)
    with pytest.raises(ValueError, match="read-only"):
        full_support(5)[0] = 1


@pytest.mark.parametrize(
    ("uniform", "token"), [(0.0, 2), (0.2499, 2), (0.25, 7), (0.7499, 7), (0.75, 9), (HIGHEST_UNIFORM, 9)]
)
def test_draw_inverts_the_cumulative_distribution(uniform: float, token: int) -> None:
    assert draw(sparse(t2=0.25, t4=0.0, t7=0.5, t9=0.25, t11=0.0), uniform) == token


def test_draw_crosses_blocks() -> None:
    size = 5000
    distribution = TokenDistribution(full_support(size), np.full(size, 1 / size))
    for token in (0, 511, 512, 513, 1024, 2600, size - 1):
        assert draw(distribution, (token + 0.5) / size) == token


def test_draw_skips_zeros_at_both_ends_of_blocks() -> None:
    probs = np.zeros(3000)
    probs[[700, 1300]] = 0.5
    distribution = TokenDistribution(full_support(3000), probs)
    assert {draw(distribution, uniform) for uniform in (0.0, 0.49)} == {700}
    assert {draw(distribution, uniform) for uniform in (0.5, HIGHEST_UNIFORM)} == {1300}


def test_residual_of_aligned_supports() -> None:
    rest, mass = residual(full(0.5, 0.3, 0.2), full(0.2, 0.6, 0.2))
    assert mass == pytest.approx(0.3)
    assert rest.probs.tolist() == pytest.approx([1, 0, 0])


@pytest.mark.parametrize(
    ("target", "draft", "expected"),
    [
        (full(0.5, 0.3, 0.2), sparse(t0=0.3, t2=0.7), [0.2, 0.3, 0]),
        (sparse(t1=0.6, t2=0.4), full(0.3, 0.3, 0.4), [0, 0.3, 0]),
        (sparse(t0=0.6, t2=0.4), sparse(t0=0.1, t1=0.5, t2=0.4), [0.5, 0, 0]),
        (sparse(t0=0.6, t1=0.1, t2=0.3), sparse(t1=0.5, t3=0.5), [0.6, 0, 0.3]),
        (full(0.5, 0.3, 0.2), full(0.2, 0.8), [0.3, 0, 0.2]),
        (full(0.5, 0.5), full(0.2, 0.2, 0.6), [0.3, 0.3, 0]),
        (sparse(t0=0.5, t1=0.5), sparse(t5=1.0), [0.5, 0.5, 0]),
        (sparse(t5=1.0), sparse(t0=0.5, t1=0.5), [0, 0, 0, 0, 0, 1]),
    ],
)
def test_residual_aligns_supports(
    target: TokenDistribution, draft: TokenDistribution, expected: list[float]
) -> None:
    rest, mass = residual(target, draft)
    assert mass == pytest.approx(sum(expected))
    assert dense(rest, len(expected)) == pytest.approx([value / sum(expected) for value in expected])


def test_residual_of_a_certain_token_is_the_target_without_it() -> None:
    rest, mass = residual(full(0.5, 0.3, 0.2), one_hot(0))
    assert mass == pytest.approx(0.5)
    assert rest.probs.tolist() == pytest.approx([0, 0.6, 0.4])


def test_residual_scales_the_target() -> None:
    rest, mass = residual(full(0.5, 0.5), full(0.2, 0.8), scale=0.5)
    assert mass == pytest.approx(0.05)
    assert rest.probs.tolist() == [1, 0]


def test_residual_without_mass_is_the_target() -> None:
    target = full(0.5, 0.5)
    assert residual(target, full(0.5, 0.5)) == (target, 0.0)


def test_residual_leaves_its_arguments_alone() -> None:
    target, draft = full(0.5, 0.5), full(0.2, 0.8)
    residual(target, draft)
    assert target.probs.tolist() == [0.5, 0.5]
    assert draft.probs.tolist() == [0.2, 0.8]


def test_a_deterministic_draft_was_proposed_with_certainty() -> None:
    certain = proposal(Draft((4, 2)), 1)
    assert (certain.ids.tolist(), certain.probs.tolist()) == ([2], [1.0])
    distribution = full(0.5, 0.5)
    assert proposal(Draft((0,), (distribution,)), 0) is distribution


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_need_not_sum_to_one(dtype: str) -> None:
    weights = np.zeros(3000).astype(dtype)
    weights[[5, 700, 2900]] = 2.0, 1.0, 5.0
    distribution = TokenDistribution(full_support(3000), weights)
    assert probability(distribution, 700) == pytest.approx(1 / 8)
    assert distribution.probs.dtype == np.float64
    assert distribution.probs.sum() == pytest.approx(1.0, abs=1e-12)
    drawn = [draw(distribution, uniform) for uniform in (0.24, 0.26, 0.38, HIGHEST_UNIFORM)]
    assert drawn == [5, 700, 2900, 2900]
    rest, mass = residual(distribution, TokenDistribution(full_support(3000), 3 * weights))
    assert (rest, mass) == (distribution, 0.0)
