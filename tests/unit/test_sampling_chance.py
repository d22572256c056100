"""Randomness: the seeded generator, and noise shared by draft and target."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import numpy as np

from homespec.records import TokenDistribution
from homespec.sampling import SeededChance, SharedNoise
from homespec.sampling.chance import exponential_noise
from homespec.sampling.distributions import full_support, one_hot

# The probability that a correct sampler fails one chi-square test here. Seeds are fixed, so a test that
# passes once passes always; the level says how little a failure could be bad luck when code changes.
FALSE_ALARM = 1e-6
PROBS = (0.3, 0.02, 0.18, 0.1, 0.25, 0.05, 0.1)


def chi_square_p_value(statistic: float, degrees: int) -> float:
    """P(chi-square > statistic), for an even number of degrees of freedom.

    A sum of `degrees` squared normals is then twice an Erlang variable, whose tail is a Poisson sum
    (Abramowitz and Stegun, 26.4.5).
    """
    assert degrees % 2 == 0
    half = statistic / 2
    return math.exp(-half) * sum(half**index / math.factorial(index) for index in range(degrees // 2))


def assert_law(outcomes: Iterable[object], expected: dict[object, float]) -> None:
    counts = Counter(outcomes)
    assert set(counts) <= set(expected)
    total = counts.total()
    statistic = sum((counts[key] - total * prob) ** 2 / (total * prob) for key, prob in expected.items())
    assert chi_square_p_value(statistic, len(expected) - 1) > FALSE_ALARM


def distribution(probs: Iterable[float] = PROBS, first: int = 0) -> TokenDistribution:
    values = np.array(list(probs))
    return TokenDistribution(np.arange(first, first + values.size, dtype=np.int64), values)


def test_the_chi_square_tail_is_right() -> None:
    assert math.isclose(chi_square_p_value(5.991, 2), 0.05, rel_tol=1e-3)  # Tabulated critical values.
    assert math.isclose(chi_square_p_value(18.307, 10), 0.05, rel_tol=1e-3)


def test_seeded_draws_have_the_law() -> None:
    chance = SeededChance(1)
    assert_law((chance.choose(distribution(), 0) for _ in range(20_000)), dict(enumerate(PROBS)))


def test_seeded_events_have_their_probability() -> None:
    chance = SeededChance(2)
    pairs = ((chance.happens(0.3), chance.happens(0.8)) for _ in range(20_000))
    codes = (2 * first + second for first, second in pairs)
    num_true = Counter(codes)
    assert abs((num_true[2] + num_true[3]) / 20_000 - 0.3) < 5 * math.sqrt(0.21 / 20_000)
    assert abs((num_true[1] + num_true[3]) / 20_000 - 0.8) < 5 * math.sqrt(0.16 / 20_000)


def test_certain_events_use_no_randomness() -> None:
    plain, other = SeededChance(3), SeededChance(3)
    assert other.happens(1.0)
    draws = [(plain.choose(distribution(), 0), other.choose(distribution(), 0)) for _ in range(20)]
    assert all(first == second for first, second in draws)


def test_the_same_seed_gives_the_same_draws() -> None:
    first, second = ([SeededChance(seed).choose(distribution(), 0) for seed in range(50)] for _ in range(2))
    assert first == second
    assert len(set(first)) > 1


def test_noise_is_splitmix64() -> None:
    # The first outputs for seed 1234567 of the reference implementation, as Rosetta Code lists them.
    published = (6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431)
    expected = [-math.log(((bits >> 12) + 0.5) / 2**52) for bits in published]
    noise = exponential_noise(1234567, np.arange(4, dtype=np.uint64))
    np.testing.assert_allclose(noise, expected, rtol=1e-14)


def test_shared_draws_have_the_law_over_positions() -> None:
    noise = SharedNoise(4)
    draws = (noise.choose(distribution(), position) for position in range(20_000))
    assert_law(draws, dict(enumerate(PROBS)))


def test_shared_draws_have_the_law_over_seeds() -> None:
    draws = (SharedNoise(seed).choose(distribution(), 17) for seed in range(20_000))
    assert_law(draws, dict(enumerate(PROBS)))


def test_shared_draws_at_neighbouring_positions_are_independent() -> None:
    noise = SharedNoise(5)
    pairs = (
        (noise.choose(distribution(), position), noise.choose(distribution(), position + 1))
        for position in range(0, 60_000, 2)
    )
    expected: dict[object, float] = {
        (first, second): PROBS[first] * PROBS[second] for first in range(7) for second in range(7)
    }
    assert_law(pairs, expected)


def test_shared_draws_of_neighbouring_seeds_are_independent() -> None:
    pairs = (
        (SharedNoise(seed).choose(distribution(), 3), SharedNoise(seed + 1).choose(distribution(), 3))
        for seed in range(0, 40_000, 2)
    )
    expected: dict[object, float] = {
        (first, second): PROBS[first] * PROBS[second] for first in range(7) for second in range(7)
    }
    assert_law(pairs, expected)


def test_shared_draws_of_high_token_ids_have_the_law() -> None:
    noise = SharedNoise(6)
    draws = (noise.choose(distribution(first=151_900), position) for position in range(20_000))
    assert_law(draws, {151_900 + index: prob for index, prob in enumerate(PROBS)})


def test_rare_tokens_are_drawn_as_often_as_they_should() -> None:
    """A thousand tokens share a five-hundredth of the mass: granular noise would favour or starve them."""
    probs = np.full(1001, 2e-6)
    probs[0] = 1 - 2e-3
    noise = SharedNoise(7)
    rare = sum(noise.choose(distribution(probs), position) > 0 for position in range(20_000))
    assert abs(rare - 40) < 5 * math.sqrt(40)


def test_noise_depends_on_the_token_not_on_the_support() -> None:
    everything = exponential_noise(99, full_support(1000).view(np.uint64))
    some = np.array([3, 500, 999], dtype=np.uint64)
    assert exponential_noise(99, some).tolist() == everything[[3, 500, 999]].tolist()


def test_choice_survives_the_removal_of_other_tokens() -> None:
    noise = SharedNoise(8)
    for position in range(200):
        token = noise.choose(distribution(), position)
        keep = sorted({token, (token + 3) % 7})
        reduced = TokenDistribution(np.array(keep), np.array(PROBS)[keep] / np.array(PROBS)[keep].sum())
        assert noise.choose(reduced, position) == token


def test_tokens_of_probability_zero_are_never_chosen() -> None:
    noise = SharedNoise(9)
    assert {noise.choose(distribution([0.0, 1.0, 0.0]), position) for position in range(500)} == {1}
    assert {noise.choose(distribution([5e-324, 1.0]), position) for position in range(500)} == {1}
    assert noise.choose(one_hot(6), 0) == 6


def test_shared_noise_makes_draft_and_target_agree() -> None:
    """Acceptance is at least (1 - D) / (1 + D), D the total variation distance (2408.07978)."""
    generator = np.random.default_rng(10)
    noise = SharedNoise(10)
    num_positions, num_equal, bound, overlap_squared = 4000, 0, 0.0, 0.0
    for position in range(num_positions):
        target, draft = generator.dirichlet(np.ones(6)), generator.dirichlet(np.ones(6))
        distance = 0.5 * np.abs(target - draft).sum()
        bound += (1 - distance) / (1 + distance)
        overlap_squared += float(target @ draft)
        num_equal += noise.choose(distribution(target), position) == noise.choose(
            distribution(draft), position
        )
    assert num_equal > bound - 5 * math.sqrt(num_positions / 4)
    assert num_equal > 1.5 * overlap_squared  # What independent draws would reach.
