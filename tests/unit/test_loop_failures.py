"""Whatever a drafter or the cache does, the reply goes on or ends cleanly."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from homespec.contracts import KeepGoing, Rows
from homespec.errors import CacheRollbackError, DecodeAbortedError
from homespec.records import Draft, SamplingParams
from homespec.sampling import make_sampling
from tests.support.scripted import RandomDrafter, ScriptedDrafter, make_reply, run
from tests.support.table_model import Logits, TableModel

GREEDY = SamplingParams(temperature=0)


def plain_text(prompt: list[int], count: int) -> list[int]:
    target = TableModel.random(1, 6)
    reply = make_reply(prompt, make_sampling(GREEDY).verifier, max_tokens=count)
    run(target, reply)
    return reply.tokens


class FailingDrafter:
    name = "failing"

    def __init__(self, calls_before: int) -> None:
        self.calls = 0
        self._calls_before = calls_before

    def propose(self, tokens: Sequence[int], max_tokens: int, keep_going: KeepGoing) -> Draft:
        self.calls += 1
        if self.calls > self._calls_before:
            raise RuntimeError("out of luck")
        return Draft((0, 1))


@pytest.mark.parametrize("calls_before", [0, 3])
def test_a_failing_drafter_is_dropped_and_told_once(
    calls_before: int, caplog: pytest.LogCaptureFixture
) -> None:
    drafter = FailingDrafter(calls_before)
    reply = make_reply([1, 2], make_sampling(GREEDY).verifier, drafter=drafter, max_tokens=20)
    steps = run(TableModel.random(1, 6), reply)
    assert reply.tokens == plain_text([1, 2], 20)
    assert drafter.calls == calls_before + 1
    assert reply.dropped == ("drafter_failed", "out of luck")
    assert len(caplog.records) == 1
    assert steps[-1].drafter == "none"


class CannotTruncate(TableModel):
    """As a recurrent model: a failed truncate leaves nothing."""

    def truncate(self, num_tokens: int) -> None:
        self.cached_tokens.clear()
        raise CacheRollbackError("no way back")


def test_a_cache_that_cannot_roll_back_is_rebuilt_and_drafting_ends() -> None:
    target = CannotTruncate.random(1, 6)
    reply = make_reply([1, 2], make_sampling(GREEDY).verifier, drafter=RandomDrafter(0, 6), max_tokens=20)
    steps = run(target, reply)
    assert reply.tokens == plain_text([1, 2], 20)
    assert reply.dropped == ("cannot_roll_back", "no way back")
    assert steps[-1].num_draft_tokens == 0


class AbortedAfter(TableModel):
    """Stopped on request at the n-th decode."""

    decodes_left = 3

    def decode(self, tokens: Sequence[int], rows: Rows = "all") -> Logits:
        self.decodes_left -= 1
        if self.decodes_left < 0:
            raise DecodeAbortedError("stopped")
        return super().decode(tokens, rows)


def test_an_interruption_keeps_what_there_is() -> None:
    target = AbortedAfter.random(1, 6)
    reply = make_reply([1, 2], make_sampling(GREEDY).verifier, max_tokens=20)
    steps = run(target, reply)
    assert steps[-1].finish_reason == "interrupted"
    assert steps[-1].tokens == ()
    assert reply.tokens == plain_text([1, 2], 20)[: len(reply.tokens)]
    assert len(reply.tokens) > 2


def test_an_interruption_while_drafting_is_no_failure_of_the_drafter() -> None:
    def stop(_tokens: Sequence[int]) -> Sequence[int]:
        raise DecodeAbortedError("stopped")

    reply = make_reply([1, 2], make_sampling(GREEDY).verifier, drafter=ScriptedDrafter(stop), max_tokens=9)
    _, step = run(TableModel.random(1, 6), reply)
    assert step.finish_reason == "interrupted"
    assert reply.dropped is None
