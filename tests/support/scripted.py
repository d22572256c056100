"""Drafters and models that do what a test tells them, and a shortcut to run the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from homespec.contracts import Drafter, KeepGoing, LengthPolicy, TokenModel, Verifier
from homespec.decoding.loop import ActiveReply, decode_steps
from homespec.decoding.stopping import Stopping
from homespec.drafting.length import FixedLength
from homespec.drafting.none import NoDrafter
from homespec.records import Draft, StepRecord


class RandomDrafter:
    """Proposes random tokens, as many as it may or fewer."""

    name = "random"

    def __init__(self, seed: int, vocab_size: int) -> None:
        self._random = np.random.default_rng(seed)
        self._vocab_size = vocab_size

    def propose(self, tokens: Sequence[int], max_tokens: int, keep_going: KeepGoing) -> Draft:
        count = int(self._random.integers(0, max_tokens + 1))
        return Draft(tuple(int(t) for t in self._random.integers(0, self._vocab_size, count)))


@dataclass
class ScriptedDrafter:
    """Proposes what a function of the history says, cut to what is allowed."""

    script: Callable[[Sequence[int]], Sequence[int]]
    name: str = "scripted"
    asked: list[int] = field(default_factory=list)

    def propose(self, tokens: Sequence[int], max_tokens: int, keep_going: KeepGoing) -> Draft:
        self.asked.append(max_tokens)
        return Draft(tuple(self.script(tokens))[:max_tokens])


def letters(token: int) -> bytes:
    """Token 0 is `a`, 1 is `b`, and so on."""
    return bytes([ord("a") + token])


def make_reply(
    tokens: Sequence[int],
    verifier: Verifier,
    *,
    drafter: Drafter | None = None,
    lengths: LengthPolicy | None = None,
    end_token: int | None = None,
    stop_strings: Sequence[str] = (),
    max_tokens: int | None = None,
    context_tokens: int = 1 << 30,
) -> ActiveReply:
    """A reply about to be generated."""
    return ActiveReply(
        tokens=list(tokens),
        drafter=drafter or NoDrafter(),
        verifier=verifier,
        lengths=lengths or FixedLength(4),
        stopping=Stopping(
            is_end=lambda token: token == end_token,
            token_bytes=letters,
            stop_strings=stop_strings,
            max_tokens=max_tokens,
            context_tokens=context_tokens,
        ),
    )


def steps_of(target: TokenModel, reply: ActiveReply) -> Iterator[StepRecord]:
    """Prefills and generates; checks the loop's invariant at every step."""
    logits = target.decode(reply.tokens[target.num_cached_tokens :], rows="last")
    for step in decode_steps(target, reply, logits):
        assert target.num_cached_tokens == len(reply.tokens) - 1
        assert list(target.cached_tokens) == reply.tokens[:-1]
        assert len(step.tokens) <= max(1, step.width)
        assert step.num_accepted_tokens <= step.num_draft_tokens
        yield step


def run(target: TokenModel, reply: ActiveReply) -> list[StepRecord]:
    """All steps of a reply."""
    steps = list(steps_of(target, reply))
    assert steps[-1].finish_reason is not None
    assert all(step.finish_reason is None for step in steps[:-1])
    return steps
