"""What holds for the decoding loop whatever the drafter, the draft length and the place where it stops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from homespec.contracts import Drafter, LengthPolicy
from homespec.decoding.replay import replay
from homespec.drafting.arm import Arm
from homespec.drafting.chain import ChainDrafter
from homespec.drafting.control import Controller
from homespec.drafting.draft_model import DraftModelDrafter
from homespec.drafting.length import FixedLength
from homespec.drafting.none import NoDrafter
from homespec.records import SamplingParams, StepRecord, VerifierName
from homespec.sampling import make_sampling
from tests.support.made_up_costs import MadeUpCosts, flat
from tests.support.ngram import NgramDrafter
from tests.support.scripted import RandomDrafter, ScriptedDrafter, make_reply, run, steps_of
from tests.support.table_model import TableModel

VOCAB = 6
DRAFTERS = ["none", "ngram", "random", "self", "near copy", "chain", "chain of chains"]
"""Of `make_drafter`."""
PROPOSERS = {"ngram", "random", "draft-model"}
"""Names of those among them that propose something themselves."""
GREEDY = SamplingParams(temperature=0)
SAMPLED = SamplingParams(temperature=1, top_k=0, top_p=1, min_p=0, seed=3)

prompts = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=12)
seeds = st.integers(0, 1000)


def make_drafter(kind: str, target: TableModel, params: SamplingParams, name: VerifierName | None) -> Drafter:
    def draft_model(model: TableModel) -> Drafter:
        return DraftModelDrafter(model, make_sampling(params, name).picker, lambda token: token == 0)

    makers: dict[str, Callable[[], Drafter]] = {
        "none": NoDrafter,
        "ngram": lambda: NgramDrafter(1, 3),
        "random": lambda: RandomDrafter(5, VOCAB),
        "self": lambda: draft_model(target.near_copy(0, spread=0.0)),
        "near copy": lambda: draft_model(target.near_copy(9, spread=0.7)),
        "chain": lambda: ChainDrafter([NgramDrafter(2, 3), draft_model(target.near_copy(9))]),
        "chain of chains": lambda: ChainDrafter(
            [ChainDrafter([NgramDrafter(3, 3), NgramDrafter(2, 3)]), RandomDrafter(5, VOCAB)]
        ),
    }
    return makers[kind]()


def generate(
    seed: int, prompt: list[int], kind: str, length: int, params: SamplingParams, name: VerifierName | None
) -> list[int]:
    return generate_steps(seed, prompt, kind, length, params, name)[0]


def generate_steps(
    seed: int, prompt: list[int], kind: str, length: int, params: SamplingParams, name: VerifierName | None
) -> tuple[list[int], list[StepRecord]]:
    target = TableModel.random(seed, VOCAB)
    reply = make_reply(
        prompt,
        make_sampling(params, name).verifier,
        drafter=make_drafter(kind, target, params, name),
        lengths=FixedLength(length),
        end_token=0,
        max_tokens=25,
    )
    steps = run(target, reply)
    return reply.tokens, steps


def untimed(step: StepRecord) -> StepRecord:
    return replace(step, draft_seconds=0, verify_seconds=0, sample_seconds=0, finish_reason=None)


@given(seed=seeds, prompt=prompts, kind=st.sampled_from(DRAFTERS), length=st.integers(0, 6))
@settings(max_examples=100, deadline=None)
def test_every_draft_bears_the_name_of_who_proposed_it(
    seed: int, prompt: list[int], kind: str, length: int
) -> None:
    _, steps = generate_steps(seed, prompt, kind, length, GREEDY, None)
    for step in steps:
        # A stop inside a draft takes the tokens behind it out of the record.
        assert step.drafter in PROPOSERS if step.width > 1 else step.drafter == "none"


@given(
    seed=seeds,
    prompt=prompts,
    kind=st.sampled_from(DRAFTERS),
    length=st.integers(0, 6),
    count=st.integers(1, 25),
    controlled=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_a_replay_takes_the_steps_of_the_loop(
    seed: int, prompt: list[int], kind: str, length: int, count: int, controlled: bool
) -> None:
    target = TableModel.random(seed, VOCAB)

    def fresh() -> tuple[Drafter, LengthPolicy]:
        drafter = make_drafter(kind, target, GREEDY, None)
        if not controlled:
            return drafter, FixedLength(length)
        controller = Controller(MadeUpCosts(flat), [Arm(drafter)], length, pinned=True)
        return controller, controller

    drafter, lengths = fresh()
    verifier = make_sampling(GREEDY, None).verifier
    reply = make_reply(prompt, verifier, drafter=drafter, lengths=lengths, max_tokens=count)
    steps = run(TableModel.random(seed, VOCAB), reply)
    again = list(replay(reply.tokens, len(prompt), *fresh()))
    for step in (*steps, *again):
        assert step.num_draft_tokens < count  # the target's own token has room as well
    assert [untimed(step) for step in again] == [untimed(step) for step in steps]


@given(seed=seeds, prompt=prompts, kind=st.sampled_from(DRAFTERS), length=st.integers(0, 6))
@settings(max_examples=150, deadline=None)
def test_greedy_text_is_plain_text(seed: int, prompt: list[int], kind: str, length: int) -> None:
    assert generate(seed, prompt, kind, length, GREEDY, None) == generate(
        seed, prompt, "none", 0, GREEDY, None
    )


@given(seed=seeds, prompt=prompts, kind=st.sampled_from(DRAFTERS), length=st.integers(0, 6))
@settings(max_examples=150, deadline=None)
def test_coupled_text_depends_on_seed_and_target_alone(
    seed: int, prompt: list[int], kind: str, length: int
) -> None:
    plain = generate(seed, prompt, "none", 0, SAMPLED, "coupled")
    assert generate(seed, prompt, kind, length, SAMPLED, "coupled") == plain


@given(
    seed=seeds,
    prompt=prompts,
    kind=st.sampled_from(DRAFTERS),
    length=st.integers(0, 6),
    name=st.sampled_from(["rejection", "block"]),
)
@settings(max_examples=100, deadline=None)
def test_a_seed_repeats(seed: int, prompt: list[int], kind: str, length: int, name: VerifierName) -> None:
    once = generate(seed, prompt, kind, length, SAMPLED, name)
    assert generate(seed, prompt, kind, length, SAMPLED, name) == once


def greedy_continuation(target: TableModel, prompt: list[int], count: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(target.next_logits(tokens).argmax()))
    return tokens[len(prompt) :]


def perfect_drafter(target: TableModel, prompt: list[int]) -> ScriptedDrafter:
    """Knows the greedy text, so that every draft is accepted whole."""
    text = greedy_continuation(target, prompt, 64)
    return ScriptedDrafter(lambda tokens: text[len(tokens) - len(prompt) :])


@pytest.mark.parametrize("index", range(12))
def test_a_stop_token_at_any_index_of_a_block_ends_the_reply(index: int) -> None:
    # A draft length of 4 makes blocks of 5: indices 4 and 9 are bonus tokens.
    target, prompt, text = find_text_with_first_occurrence_at(index)
    reply = make_reply(
        prompt,
        make_sampling(GREEDY).verifier,
        drafter=perfect_drafter(target, prompt),
        end_token=text[index],
    )
    steps = run(target, reply)
    assert reply.tokens == prompt + text[: index + 1]
    assert steps[-1].finish_reason == "stop"
    assert sum(len(step.tokens) for step in steps) == index + 1
    # What came after the stop was never judged, so nothing was rejected.
    assert sum(step.num_draft_tokens - step.num_accepted_tokens for step in steps) == 0


def find_text_with_first_occurrence_at(index: int) -> tuple[TableModel, list[int], list[int]]:
    for seed in range(1000):
        target = TableModel.random(seed, 40, spread=3)
        text = greedy_continuation(target, [1, 2], 20)
        if text[index] not in text[:index]:
            return target, [1, 2], text
    raise AssertionError


@given(seed=seeds, start=st.integers(0, 14), size=st.integers(1, 4), length=st.integers(0, 6))
@settings(max_examples=150, deadline=None)
def test_a_stop_string_ends_the_text_before_it(seed: int, start: int, size: int, length: int) -> None:
    target, prompt = TableModel.random(seed, VOCAB), [1, 2]
    text = greedy_continuation(target, prompt, 30)
    letters = "".join(chr(ord("a") + token) for token in text)
    stop = letters[start : start + size]
    reply = make_reply(
        prompt,
        make_sampling(GREEDY).verifier,
        drafter=perfect_drafter(target, prompt),
        lengths=FixedLength(length),
        stop_strings=[stop],
    )
    shown = ""
    for _ in steps_of(target, reply):
        shown += reply.stopping.take_text()
        assert stop not in shown
    shown += reply.stopping.finish_text()
    at = letters.index(stop)
    assert shown == letters[:at]
    # The token that completes the stop string is the last one, in the tokens and in the cache alike.
    assert reply.tokens == prompt + text[: at + size]


@pytest.mark.parametrize("remaining", range(1, 9))
@pytest.mark.parametrize("limit", ["context", "max_tokens"])
@pytest.mark.parametrize("drafted", ["perfect", "random"])
def test_the_end_is_met_exactly(remaining: int, limit: str, drafted: str) -> None:
    length, prompt = 6, [1, 2, 3]
    target = TableModel.random(
        4, VOCAB, context_tokens=len(prompt) + remaining if limit == "context" else 1000
    )
    reply = make_reply(
        prompt,
        make_sampling(GREEDY).verifier,
        drafter=perfect_drafter(target, prompt) if drafted == "perfect" else RandomDrafter(1, VOCAB),
        lengths=FixedLength(length),
        max_tokens=remaining if limit == "max_tokens" else None,
        context_tokens=target.context_tokens,
    )
    steps = run(target, reply)
    assert len(reply.tokens) == len(prompt) + remaining
    assert reply.tokens[len(prompt) :] == greedy_continuation(target, prompt, remaining)
    assert steps[-1].finish_reason == ("context" if limit == "context" else "length")


def test_a_stop_token_counts_before_the_limits() -> None:
    target, prompt = TableModel.random(4, VOCAB, context_tokens=3), [1, 2]
    (last,) = greedy_continuation(target, prompt, 1)
    reply = make_reply(prompt, make_sampling(GREEDY).verifier, end_token=last, max_tokens=1, context_tokens=3)
    assert run(target, reply)[-1].finish_reason == "stop"


@given(seed=seeds, prompt=prompts, kind=st.sampled_from(DRAFTERS), stop_after=st.integers(1, 6))
@settings(max_examples=100, deadline=None)
def test_a_caller_may_leave_and_come_back(seed: int, prompt: list[int], kind: str, stop_after: int) -> None:
    target = TableModel.random(seed, VOCAB)
    drafter = make_drafter(kind, target, GREEDY, None)
    first = make_reply(prompt, make_sampling(GREEDY).verifier, drafter=drafter, max_tokens=20)
    for number, _ in enumerate(steps_of(target, first), start=1):
        if number == stop_after:
            break
    left = 20 - (len(first.tokens) - len(prompt))
    if left:
        second = make_reply(first.tokens, make_sampling(GREEDY).verifier, drafter=drafter, max_tokens=left)
        run(target, second)
        first = second
    assert first.tokens[len(prompt) :] == greedy_continuation(target, prompt, 20)
