"""Reduced draft models in an engine: the target's text, whatever the drafter can write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from homespec.engine.engine import Engine
from homespec.engine.preparing import prepare
from homespec.engine.settings import EngineSettings
from homespec.records import RequestParams, SamplingParams
from homespec.reduce.layers import drop_layers
from homespec.reduce.trim import trim
from tests.integration.conftest import ask_tokens

PROMPT = "the return and {number}: def "
NUM_TOKENS = 320


@pytest.fixture(scope="module")
def trimmed(tiny_near_copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The draft model without some fifty printable characters and pieces."""
    path = tmp_path_factory.mktemp("reduced") / "trimmed.gguf"
    trim(tiny_near_copy, path, {}, NUM_TOKENS)
    return path


@pytest.fixture(scope="module")
def plain(tiny_target: Path) -> Iterator[Engine]:
    with Engine(str(tiny_target), draft="off") as engine:
        yield engine


@pytest.fixture(scope="module")
def drafted(tiny_target: Path, trimmed: Path) -> Iterator[Engine]:
    with Engine(str(tiny_target), draft=str(trimmed), draft_length=4, min_confidence=0.0) as engine:
        yield engine


def test_greedy_text_is_the_target_s(plain: Engine, drafted: Engine) -> None:
    """Prompts and replies are full of tokens that the draft model cannot name."""
    assert drafted.plan.reason == "on"
    num_drafted = num_accepted = num_foreign = 0
    for number in range(6):
        prompt = plain.vocabulary.tokenize(PROMPT.format(number=number))
        params = RequestParams(SamplingParams(temperature=0), max_tokens=60)
        reply, expected = ask_tokens(drafted, prompt, params), ask_tokens(plain, prompt, params)
        assert reply.token_ids == expected.token_ids
        num_foreign += sum(token >= NUM_TOKENS for token in (*prompt, *reply.token_ids))
        num_drafted += reply.stats.num_draft_tokens
        num_accepted += reply.stats.num_accepted_tokens
    assert num_foreign > 50
    assert 0.3 < num_accepted / num_drafted < 1


@pytest.mark.parametrize("verifier", ["rejection", "block", "coupled"])
def test_every_verifier_and_processor_takes_its_drafts(drafted: Engine, plain: Engine, verifier: str) -> None:
    sampling = SamplingParams(
        temperature=0.9, repeat_penalty=1.2, presence_penalty=0.1, logit_bias=((300, 2.0), (340, 1.0)), seed=3
    )
    params = RequestParams(sampling, verifier=verifier, max_tokens=60)  # type: ignore[arg-type]
    prompt = plain.vocabulary.tokenize(PROMPT.format(number=1))
    first, second = ask_tokens(drafted, prompt, params), ask_tokens(drafted, prompt, params)
    assert first.token_ids == second.token_ids
    assert first.stats.num_accepted_tokens > 0
    if verifier == "coupled":
        assert first.token_ids == ask_tokens(plain, prompt, params).token_ids


def test_as_a_target_it_is_a_model_of_its_own(trimmed: Path) -> None:
    with Engine(str(trimmed), draft="ngram", draft_length=4) as engine:
        assert engine.vocabulary.size == NUM_TOKENS
        prompt = engine.vocabulary.tokenize("the return")
        reply = ask_tokens(engine, prompt, RequestParams(SamplingParams(temperature=0), max_tokens=20))
        assert all(token < NUM_TOKENS for token in reply.token_ids)


def test_a_drafter_of_the_target_s_own_layers(tiny_target: Path, plain: Engine, tmp_path: Path) -> None:
    path = tmp_path / "shallow.gguf"
    drop_layers(tiny_target, path, [0])
    settings = EngineSettings(str(tiny_target), draft=str(path), draft_length=3, min_confidence=0.0)
    preparation = prepare(settings)
    assert "made from the target, and its copies of the target's weights" in preparation.explanation
    alone, joined = (
        next(option for option in preparation.plan.options if option.kind == kind)
        for kind in ("plain", "draft")
    )
    extra_bytes = joined.price.weights_bytes - alone.price.weights_bytes
    assert extra_bytes == pytest.approx(path.stat().st_size, rel=0.1)
    prompt = plain.vocabulary.tokenize(PROMPT.format(number=2))
    params = RequestParams(SamplingParams(temperature=0), max_tokens=60)
    with Engine(settings) as engine:
        reply = ask_tokens(engine, prompt, params)
    assert reply.stats.num_draft_tokens > 0
    assert reply.token_ids == ask_tokens(plain, prompt, params).token_ids
