"""Processors: what each option does to a row, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from homespec.errors import ConfigError, DecodeError
from homespec.records import FloatArray, SamplingParams, TokenDistribution
from homespec.sampling import Processors

PLAIN = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)


def float32(*values: float) -> FloatArray:
    row = np.array(values, dtype=np.float32)
    row.flags.writeable = False
    return row


def probs_to_logits(*probs: float) -> FloatArray:
    logits: FloatArray = np.log(np.array(probs))
    return logits


def as_dict(distribution: TokenDistribution) -> dict[int, float]:
    return dict(zip(distribution.ids.tolist(), distribution.probs.tolist(), strict=True))


class Untouchable(Sequence[int]):
    """A context that nobody may read."""

    def __getitem__(self, index: object) -> int:  # type: ignore[override]
        raise AssertionError("the context was read")

    def __len__(self) -> int:
        raise AssertionError("the context was read")


def test_temperature_divides_the_logits() -> None:
    distribution = Processors(replace(PLAIN, temperature=0.5)).distribution(float32(0.0, 1.0), ())
    assert as_dict(distribution) == pytest.approx({0: 1 / (1 + math.e**2), 1: 1 / (1 + math.e**-2)})
    assert distribution.ids.dtype == np.int64
    assert distribution.probs.dtype == np.float64


def test_full_rows_share_their_ids() -> None:
    processors = Processors(PLAIN)
    first, second = (processors.distribution(float32(*row), ()) for row in ((0, 1, 2), (2, 1, 0)))
    assert first.ids is second.ids


def test_top_k_keeps_exactly_k_and_ties_go_to_the_lowest_ids() -> None:
    distribution = Processors(replace(PLAIN, top_k=3)).distribution(float32(1, 2, 1, 1, 1, 3), ())
    assert distribution.ids.tolist() == [0, 1, 5]


def test_top_k_beyond_the_vocabulary_is_off() -> None:
    distribution = Processors(replace(PLAIN, top_k=99)).distribution(float32(1, 2), ())
    assert distribution.ids.tolist() == [0, 1]


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    row = probs_to_logits(0.125, 0.5, 0.25, 0.125)
    assert as_dict(Processors(replace(PLAIN, top_p=0.6)).distribution(row, ())) == pytest.approx(
        {1: 2 / 3, 2: 1 / 3}
    )
    assert Processors(replace(PLAIN, top_p=0.4)).distribution(row, ()).ids.tolist() == [1]


def test_top_p_that_is_met_exactly_keeps_no_more_and_ties_go_to_the_lowest_ids() -> None:
    distribution = Processors(replace(PLAIN, top_p=0.5)).distribution(float32(0, 0, 0, 0), ())
    assert as_dict(distribution) == {0: 0.5, 1: 0.5}


def test_top_p_counts_mass_within_the_top_k() -> None:
    row = probs_to_logits(0.4, 0.3, 0.2, 0.1)
    # Within the top 2 the first has 4/7 of the mass: enough for 0.55, though it is 0.4 of the whole.
    distribution = Processors(replace(PLAIN, top_k=2, top_p=0.55)).distribution(row, ())
    assert as_dict(distribution) == {0: 1.0}


def test_min_p_is_relative_to_the_most_probable_token() -> None:
    row = probs_to_logits(0.5, 0.3, 0.14, 0.06)
    for top_p in (1.0, 0.999):  # Found before the exponentials, and after them.
        distribution = Processors(replace(PLAIN, min_p=0.25, top_p=top_p)).distribution(row, ())
        assert distribution.ids.tolist() == [0, 1, 2]


def test_min_p_1_keeps_only_the_most_probable() -> None:
    distribution = Processors(replace(PLAIN, min_p=1.0)).distribution(float32(2, 1, 2), ())
    assert as_dict(distribution) == {0: 0.5, 2: 0.5}


def test_bias_adds_and_bans() -> None:
    processors = Processors(replace(PLAIN, logit_bias=((0, 1.5), (2, -math.inf), (3, -1e300))))
    assert processors.adjusted(float32(1, 1, 9, 9), ()).tolist() == [2.5, 1, -math.inf, -math.inf]
    assert as_dict(processors.distribution(float32(1, 2.5, 9, 9), ())) == {0: 0.5, 1: 0.5, 2: 0, 3: 0}


def test_repetition_penalty_divides_positive_and_multiplies_negative_logits() -> None:
    processors = Processors(replace(PLAIN, repeat_penalty=2.0))
    assert processors.adjusted(float32(3, -3, 3, -3), [0, 1, 0]).tolist() == [1.5, -6, 3, -3]


def test_presence_counts_once_and_frequency_each_time_after_repetition() -> None:
    params = replace(PLAIN, repeat_penalty=2.0, presence_penalty=1.0, frequency_penalty=0.25)
    assert Processors(params).adjusted(float32(4, 4, 4), [0, 0, 1]).tolist() == [0.5, 0.75, 4]


def test_bias_comes_before_the_repetition_penalty() -> None:
    processors = Processors(replace(PLAIN, repeat_penalty=2.0, logit_bias=((0, 3.0),)))
    assert processors.adjusted(float32(-1, 0), [0]).tolist() == [1, 0]


@pytest.mark.parametrize(("window_tokens", "penalised"), [(1, [2]), (2, [1, 2]), (0, [0, 1, 2])])
def test_penalties_see_the_window_only(window_tokens: int, penalised: list[int]) -> None:
    params = replace(PLAIN, presence_penalty=1.0, penalty_window_tokens=window_tokens)
    adjusted = Processors(params).adjusted(float32(0, 0, 0, 0), [0, 1, 2])
    assert np.flatnonzero(adjusted).tolist() == penalised


def test_rows_of_a_verify_see_the_drafted_prefix() -> None:
    params = replace(PLAIN, presence_penalty=10.0, penalty_window_tokens=2)
    logits = np.zeros((3, 4), dtype=np.float32)
    winners = list(Processors(params).argmaxes([0, 0, 1], [0, 2], logits))
    assert winners == [2, 2, 1]  # Windows 0 1, 1 0, 0 2.


def test_context_is_not_read_without_penalties() -> None:
    processors = Processors(replace(PLAIN, logit_bias=((0, 1.0),)))
    logits = np.zeros((2, 3), dtype=np.float32)
    assert len(list(processors.distributions(Untouchable(), [1], logits))) == 2


def test_argmax_takes_the_lowest_id_among_equals() -> None:
    assert Processors(PLAIN).argmax(float32(1, 3, 3), ()) == 1


def test_rows_are_not_modified() -> None:
    params = SamplingParams(logit_bias=((0, 1.0),), repeat_penalty=1.3, presence_penalty=0.5)
    row = float32(*range(10))  # Read-only, so writing would raise.
    for variant in (params, replace(params, repeat_penalty=1.0, presence_penalty=0.0, logit_bias=())):
        Processors(variant).distribution(row, [1, 2])
        Processors(variant).argmax(row, [1, 2])
    assert row.tolist() == list(range(10))


def test_only_shared_tokens_take_part() -> None:
    params = replace(PLAIN, logit_bias=((0, 1.0), (3, 9.0)), presence_penalty=1.0)
    processors = Processors(params, num_tokens=2)
    assert processors.distribution(float32(0, 1, 5, 5), [3, 2]).ids.tolist() == [0, 1]
    assert processors.argmax(float32(0, 0.5, 5, 5), [3, 2]) == 0


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ((1, math.nan, 2), "token 1 is nan"),
        ((-math.inf, -math.inf), "every logit is -inf"),
        ((0, math.inf), "token 1 is inf"),
    ],
)
def test_rows_without_a_next_token_are_refused(row: tuple[float, ...], found: str) -> None:
    processors = Processors(PLAIN)
    with pytest.raises(DecodeError, match=found):
        processors.distribution(float32(*row), ())
    with pytest.raises(DecodeError, match=found):
        processors.argmax(float32(*row), ())


def test_extreme_logits_overflow_quietly() -> None:
    distribution = Processors(replace(PLAIN, temperature=1e-4)).distribution(float32(3e38, -3e38, 0), ())
    assert as_dict(distribution) == {0: 1.0, 1: 0.0, 2: 0.0}


def test_a_bias_on_a_token_that_does_not_exist_is_refused() -> None:
    processors = Processors(replace(PLAIN, logit_bias=((7, 1.0),)))
    with pytest.raises(ConfigError, match="token 7; the model has 3 tokens"):
        processors.argmax(float32(0, 1, 2), ())


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 1e-5),
        ("temperature", math.inf),
        ("temperature", math.nan),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", math.nan),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("repeat_penalty", 0.0),
        ("repeat_penalty", math.inf),
        ("presence_penalty", math.nan),
        ("frequency_penalty", math.inf),
        ("penalty_window_tokens", -1),
        ("seed", -1),
        ("seed", 2**64),
        ("logit_bias", ((-1, 0.0),)),
        ("logit_bias", ((1, math.nan),)),
        ("logit_bias", ((1, math.inf),)),
        ("logit_bias", ((1, 0.5), (1, 0.5))),
    ],
)
def test_options_out_of_range_are_refused_by_name(option: str, value: object) -> None:
    params = replace(PLAIN, **{option: value})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=option):
        Processors(params)


def test_options_at_the_edge_of_their_range_are_taken() -> None:
    Processors(SamplingParams(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, penalty_window_tokens=0))
    Processors(SamplingParams(temperature=1e-4, top_k=1, top_p=1e-9, min_p=1.0, seed=2**64 - 1))
