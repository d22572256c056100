"""Real models, opened once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from homespec.catalog.store import resolve
from homespec.engine.engine import Engine
from homespec.errors import ModelNotFoundError
from homespec.records import Message, Reply, RequestParams

SMOLLM2 = "smollm2-135m-instruct"


def require(*names: str) -> None:
    """Skips the test where a model is not on this machine."""
    for name in names:
        try:
            resolve(name)
        except ModelNotFoundError as error:
            pytest.skip(f"{error.message} ({error.hint})")


def ask(engine: Engine, prompt: str, params: RequestParams) -> Reply:
    """One prompt in a conversation of its own."""
    return ask_tokens(engine, engine.chat_tokens([Message("user", prompt)]), params)


def ask_tokens(engine: Engine, tokens: list[int], params: RequestParams) -> Reply:
    """A whole reply; what was streamed must be its text."""
    generation = engine.generate(tokens, params)
    shown = "".join(generation)
    assert shown == generation.reply.text
    return generation.reply


@pytest.fixture(scope="session")
def plain() -> Iterator[Engine]:
    """SmolLM2 without speculation."""
    require(SMOLLM2)
    with Engine(SMOLLM2, draft="off") as engine:
        yield engine


@pytest.fixture(scope="session")
def ngram() -> Iterator[Engine]:
    """SmolLM2 with n-gram lookup, drafting always."""
    require(SMOLLM2)
    with Engine(SMOLLM2, draft="ngram", draft_length=5) as engine:
        yield engine


@pytest.fixture(scope="session")
def itself() -> Iterator[Engine]:
    """SmolLM2 with itself as draft model, drafting always."""
    require(SMOLLM2)
    with Engine(SMOLLM2, draft=SMOLLM2, draft_length=5, min_confidence=0.0) as engine:
        yield engine


@pytest.fixture(scope="session")
def controlled() -> Iterator[Engine]:
    """SmolLM2 with n-gram lookup and itself as draft model, under control."""
    require(SMOLLM2)
    with Engine(SMOLLM2, draft=f"ngram+{SMOLLM2}") as engine:
        yield engine
