"""The fast processors equal their definition, whatever the row and the options."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from homespec.records import FloatArray, SamplingParams, TokenDistribution
from homespec.sampling import Processors
from homespec.sampling.distributions import draw, full_support, probability, residual
from homespec.sampling.truncation import largest
from tests.support.naive_sampling import naive_logits, naive_probs

SETTINGS = settings(max_examples=200, deadline=None)
# How near top-p or min-p may come to deciding otherwise before rounding is allowed to decide.
NEAR = {"float32": 1e-4, "float64": 1e-9}
CLOSE = {"float32": 1e-4, "float64": 1e-10}

sizes = st.one_of(st.integers(1, 30), st.integers(31, 1000))
seeds = st.integers(0, 2**32 - 1)
dtypes = st.sampled_from(["float32", "float64"])


@st.composite
def rows(draw_from: st.DrawFn, dtype: str) -> FloatArray:
    """Rows of all shapes: flat and peaked, with ties and with banned tokens."""
    generator = np.random.default_rng(draw_from(seeds))
    row = generator.normal(0.0, draw_from(st.sampled_from([0.1, 2.0, 6.0])), draw_from(sizes))
    step = draw_from(st.sampled_from([0.0, 0.0, 0.5]))
    if step:
        row = np.round(row / step) * step
    if draw_from(st.booleans()):
        row[generator.random(row.size) < 0.3] = -math.inf
        row[generator.integers(row.size)] = 1.0
    typed: FloatArray = row.astype(dtype)
    typed.flags.writeable = False
    return typed


@st.composite
def options(draw_from: st.DrawFn, vocab_size: int) -> SamplingParams:
    tokens = st.integers(0, vocab_size - 1)
    bias = draw_from(st.dictionaries(tokens, st.sampled_from([-math.inf, -2.0, 0.5, 5.0]), max_size=3))
    penalised = draw_from(st.booleans())
    return SamplingParams(
        # The most probable token may be banned; a row without any token left is another test's business.
        logit_bias=tuple(bias.items()) if len(bias) < vocab_size else (),
        repeat_penalty=draw_from(st.sampled_from([0.7, 1.0, 1.3])) if penalised else 1.0,
        presence_penalty=draw_from(st.sampled_from([-0.5, 0.0, 1.5])) if penalised else 0.0,
        frequency_penalty=draw_from(st.sampled_from([-0.25, 0.0, 0.5])) if penalised else 0.0,
        penalty_window_tokens=draw_from(st.integers(0, 12)),
        temperature=draw_from(st.sampled_from([0.1, 0.8, 1.0, 2.5])),
        top_k=draw_from(st.one_of(st.just(0), st.integers(1, 60), st.integers(1, vocab_size + 1))),
        top_p=draw_from(st.one_of(st.just(1.0), st.floats(0.01, 0.999))),
        min_p=draw_from(st.one_of(st.just(0.0), st.floats(1e-6, 1.0))),
    )


@st.composite
def cases(draw_from: st.DrawFn) -> tuple[FloatArray, SamplingParams, list[int]]:
    row = draw_from(rows(draw_from(dtypes)))
    context = draw_from(st.lists(st.integers(0, row.size - 1), max_size=20))
    params = draw_from(options(row.size))
    assume(max(naive_logits(params, row, context)) > -math.inf)
    return row, params, context


def dense(distribution: TokenDistribution, size: int) -> npt.NDArray[np.float64]:
    probs = np.zeros(size)
    probs[distribution.ids] = distribution.probs
    return probs


@SETTINGS
@given(cases())
def test_distribution_equals_its_definition(case: tuple[FloatArray, SamplingParams, list[int]]) -> None:
    row, params, context = case
    expected, margin = naive_probs(params, row, context)
    dtype = row.dtype.name
    assume(margin > NEAR[dtype])
    # Float32 rounding of a bias or a penalty can join or part two logits at the cut of top-k.
    ranked = np.sort(naive_logits(params, row, context))[::-1]
    if dtype == "float32" and 0 < params.top_k < row.size:
        kept, dropped = ranked[params.top_k - 1], ranked[params.top_k]
        assume(kept == dropped or kept > dropped + 1e-5)
    distribution = Processors(params).distribution(row, context)
    np.testing.assert_allclose(dense(distribution, row.size), expected, rtol=CLOSE[dtype], atol=1e-12)


@SETTINGS
@given(cases())
def test_distribution_is_well_formed(case: tuple[FloatArray, SamplingParams, list[int]]) -> None:
    row, params, context = case
    distribution = Processors(params).distribution(row, context)
    assert distribution.ids.dtype == np.int64
    assert distribution.probs.dtype == np.float64
    assert distribution.ids.shape == distribution.probs.shape
    assert (np.diff(distribution.ids) > 0).all()
    assert (distribution.probs >= 0).all()
    assert distribution.probs.sum() == pytest.approx(1.0, abs=1e-12)
    if params.top_k:
        assert distribution.ids.size <= params.top_k
    # What greedy decoding would take is never truncated, except by a tie.
    logits = Processors(params).adjusted(row, context)
    kept = logits[distribution.ids]
    assert kept.max() == logits.max() == logits[Processors(params).argmax(row, context)]


@SETTINGS
@given(seeds, sizes, st.integers(1, 1000), st.sampled_from([0.0, 0.5]))
def test_largest_equals_a_stable_sort(seed: int, size: int, count: int, step: float) -> None:
    values = np.random.default_rng(seed).normal(size=size)
    if step:
        values = np.round(values / step) * step
    expected = sorted(range(size), key=lambda index: (-values[index], index))[:count]
    assert largest(values, count).tolist() == sorted(expected)
    assert largest(values, count, float(values.max())).tolist() == sorted(expected)


@st.composite
def distributions(draw_from: st.DrawFn, size: int) -> TokenDistribution:
    generator = np.random.default_rng(draw_from(seeds))
    is_full = draw_from(st.booleans())
    num_tokens = draw_from(st.integers(1, size))
    ids = full_support(num_tokens) if is_full else np.sort(generator.choice(size, num_tokens, replace=False))
    probs = generator.random(num_tokens) ** draw_from(st.sampled_from([1, 8]))
    probs[generator.random(num_tokens) < 0.2] = 0.0
    probs[generator.integers(num_tokens)] = 1.0
    return TokenDistribution(ids.astype(np.int64) if not is_full else ids, probs / probs.sum())


@SETTINGS
@given(st.data(), st.integers(1, 1500), st.floats(0.01, 1.0))
def test_residual_equals_its_definition(data: st.DataObject, size: int, scale: float) -> None:
    target, draft = data.draw(distributions(size)), data.draw(distributions(size))
    expected = np.maximum(scale * dense(target, size) - dense(draft, size), 0.0)
    rest, mass = residual(target, draft, scale)
    assert mass == pytest.approx(expected.sum(), abs=1e-12)
    if mass > 1e-9:
        np.testing.assert_allclose(dense(rest, size), expected / expected.sum(), rtol=1e-6, atol=1e-12)


@SETTINGS
@given(st.data(), st.integers(1, 3000), st.floats(0.0, 1.0, exclude_max=True))
def test_draw_inverts_the_cumulative_distribution(data: st.DataObject, size: int, uniform: float) -> None:
    distribution = data.draw(distributions(size))
    token = draw(distribution, uniform)
    assert probability(distribution, token) > 0
    cumulative = dense(distribution, size).cumsum()
    assert cumulative[token] > uniform - 1e-12
    assert (cumulative[token - 1] if token else 0.0) <= uniform + 1e-12
