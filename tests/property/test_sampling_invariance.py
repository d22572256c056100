"""Texts that must not depend on the drafter: greedy and coupled verification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from homespec.records import Draft, SamplingParams, VerifierName
from homespec.sampling import Sampling, make_sampling
from tests.support.table_model import TableModel

SETTINGS = settings(max_examples=60, deadline=None)
NUM_TOKENS = 24
PROMPT = [0, 1]

MakeDraft = Callable[[Sampling, list[int], int], Draft]

PARAMS = SamplingParams(
    temperature=0.9,
    top_k=5,
    top_p=0.95,
    min_p=0.01,
    repeat_penalty=1.2,
    presence_penalty=0.3,
    penalty_window_tokens=6,
)


def generate(
    target: TableModel,
    params: SamplingParams,
    verifier: VerifierName | None,
    make_draft: MakeDraft,
    length: int,
) -> tuple[list[int], int]:
    """The text, and how many draft tokens were accepted."""
    sampling = make_sampling(params, verifier)
    tokens, num_accepted = list(PROMPT), 0
    while len(tokens) < len(PROMPT) + NUM_TOKENS:
        draft = make_draft(sampling, tokens, length)
        rows = [
            target.next_logits([*tokens, *draft.tokens[:index]]) for index in range(len(draft.tokens) + 1)
        ]
        verdict = sampling.verifier.verify(tokens, draft, np.stack(rows))
        tokens.extend(verdict.tokens)
        num_accepted += verdict.num_accepted
    return tokens[len(PROMPT) :][:NUM_TOKENS], num_accepted


def no_draft(_: Sampling, _tokens: list[int], _length: int) -> Draft:
    return Draft()


def with_model(model: TableModel) -> MakeDraft:
    """Drafts as a draft model does, through the picker that belongs to the verifier."""

    def make_draft(sampling: Sampling, history: list[int], length: int) -> Draft:
        tokens = list(history)
        for _ in range(length):
            token, _distribution = sampling.picker.look(model.next_logits(tokens), tokens).draw(len(tokens))
            tokens.append(token)
        return Draft(tuple(tokens[len(history) :]))

    return make_draft


def at_random(seed: int, vocab_size: int) -> MakeDraft:
    generator = np.random.default_rng(seed)

    def make_draft(_: Sampling, _history: list[int], length: int) -> Draft:
        return Draft(tuple(generator.integers(0, vocab_size, generator.integers(0, length + 1)).tolist()))

    return make_draft


@SETTINGS
@given(st.integers(0, 2**64 - 1), st.integers(0, 1000), st.integers(2, 12), st.integers(1, 6), st.booleans())
def test_the_text_depends_on_seed_and_target_alone(
    seed: int, model_seed: int, vocab_size: int, length: int, greedy: bool
) -> None:
    params = replace(PARAMS, seed=seed, temperature=0.0 if greedy else 0.9)
    verifier: VerifierName = "greedy" if greedy else "coupled"
    target = TableModel.random(model_seed, vocab_size)
    plain, _ = generate(target, params, verifier, no_draft, 0)
    stranger = TableModel.random(model_seed + 1, vocab_size)
    for make_draft in (
        with_model(target),
        with_model(target.near_copy(model_seed + 2)),
        with_model(stranger),
        at_random(model_seed, vocab_size),
    ):
        text, _ = generate(target, params, verifier, make_draft, length)
        assert text == plain


@pytest.mark.parametrize("verifier", ["greedy", "coupled"])
def test_the_target_as_its_own_draft_model_is_always_accepted(verifier: VerifierName) -> None:
    target = TableModel.random(3, 20)
    params = replace(PARAMS, temperature=0.0 if verifier == "greedy" else 0.9)
    _, num_accepted = generate(target, params, verifier, with_model(target), 3)
    assert num_accepted == NUM_TOKENS // 4 * 3


def test_texts_of_different_seeds_differ() -> None:
    target = TableModel.random(3, 20, spread=0.5)
    texts = {
        tuple(generate(target, replace(PARAMS, seed=seed), "coupled", no_draft, 0)[0]) for seed in range(20)
    }
    assert len(texts) == 20
