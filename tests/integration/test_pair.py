"""The Qwen2.5-Coder pair: a real target with a real draft model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from homespec.engine.engine import Engine
from homespec.records import Message, RequestParams, SamplingParams
from tests.integration.conftest import ask_tokens, require

pytestmark = pytest.mark.pair

TARGET, DRAFT = "qwen2.5-coder-1.5b-instruct", "qwen2.5-coder-0.5b-instruct"
GREEDY = RequestParams(SamplingParams(temperature=0), max_tokens=48)
PROMPT = "Write a Python function `is_palindrome(text)` that ignores case and spaces. Answer with code only."
# Largest difference of two logits between a decode of several tokens and of one, as measured for Q4_K_M on
# AVX2; a greedy choice may fall either way where the best two are closer.
NEAR_TIE = 0.75


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    require(TARGET, DRAFT)
    with Engine(TARGET, draft=DRAFT, draft_length=5, context_tokens=1024) as engine:
        yield engine


def test_the_pair_shares_its_vocabulary_and_accepts_most_of_a_draft(engine: Engine) -> None:
    assert engine.plan.reason == "on"
    reply = ask_tokens(engine, engine.chat_tokens([Message("user", PROMPT)]), GREEDY)
    assert reply.drafter == "draft-model"
    assert (reply.stats.mean_acceptance_length or 0) > 3


def test_greedy_text_is_the_targets_up_to_near_ties(engine: Engine) -> None:
    prompt = engine.chat_tokens([Message("user", PROMPT)])
    tokens = [*prompt, *ask_tokens(engine, prompt, GREEDY).token_ids]
    for at in range(len(prompt), len(tokens)):
        logits = engine.next_logits(tokens[:at])
        assert logits[tokens[at]] >= float(np.max(logits)) - NEAR_TIE


def test_a_sampled_pair_repeats_with_its_seed(engine: Engine) -> None:
    prompt = engine.chat_tokens([Message("user", PROMPT)])
    params = RequestParams(SamplingParams(temperature=1, seed=7), max_tokens=24)
    first, second = (ask_tokens(engine, prompt, params) for _ in range(2))
    assert first.token_ids == second.token_ids
    assert first.stats.num_accepted_tokens > 0
