"""Recorded proposals against a draft model that really drafts, and what follows from them by brute force."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.contracts import Going
from homespec.drafting.draft_model import DraftModelDrafter
from homespec.engine.diet.passages import Passage
from homespec.engine.diet.recording import CHUNK_ROWS, Recording, acceptance, record, run_length
from homespec.records import SamplingParams
from homespec.sampling import make_sampling
from tests.support.table_model import TableModel

agreements = st.lists(st.lists(st.booleans(), max_size=60), max_size=5)


def agreeing(agreed: list[bool]) -> Recording:
    """A recording that is right where it says so."""
    passage = Passage("text", False, (7, *([1] * len(agreed))), 1)
    return Recording(passage, tuple(int(right) for right in agreed), (0.5,) * len(agreed))


def greedy_passage(target: TableModel, prompt: tuple[int, ...], num_tokens: int) -> Passage:
    tokens = list(prompt)
    for _ in range(num_tokens):
        tokens.append(int(target.next_logits(tokens).argmax()))
    return Passage("text", False, tuple(tokens), len(prompt))


@given(
    seed=st.integers(0, 999),
    prompt=st.lists(st.integers(0, 6), min_size=1, max_size=40).map(tuple),
    num_tokens=st.integers(0, 2 * CHUNK_ROWS + 3),
    draft_length=st.integers(1, 6),
)
def test_a_recording_is_what_a_drafter_would_propose(
    seed: int, prompt: tuple[int, ...], num_tokens: int, draft_length: int
) -> None:
    target = TableModel.random(seed, 7)
    draft = target.near_copy(seed + 1)
    passage = greedy_passage(target, prompt, num_tokens)
    recording = record(draft, passage)
    assert len(recording.proposals) == len(recording.confidences) == passage.num_reply_tokens == num_tokens
    picker = make_sampling(SamplingParams(temperature=0.0), None, None).picker
    drafter = DraftModelDrafter(draft, picker, lambda token: False)
    for place in range(num_tokens):
        position = len(prompt) + place
        room = min(draft_length, num_tokens - place)
        real = drafter.propose(passage.tokens[:position], room, lambda _: Going.ON)
        reply = passage.tokens[position : position + room]
        num_right = run_length([mine == its for mine, its in zip(real.tokens, reply, strict=True)])
        assert run_length(recording.agreed[place : place + room]) == num_right
        # As far as the draft's history is the text, token by token, the first wrong one included.
        seen = slice(place, place + min(room, num_right + 1))
        assert recording.proposals[seen] == real.tokens[: num_right + 1]
        assert recording.confidences[seen] == pytest.approx(real.confidences[: num_right + 1])


def test_a_second_passage_reuses_what_the_first_has_read() -> None:
    target = TableModel.random(1, 7)
    prompt = tuple(np.random.default_rng(1).integers(0, 7, 50).tolist())
    first = greedy_passage(target, prompt, 10)
    draft = target.near_copy(2)
    fresh = record(draft, first)
    num_decoded = draft.num_decoded_tokens
    assert record(draft, first) == fresh
    # The last token of the prompt, and the reply without its last token.
    assert draft.num_decoded_tokens - num_decoded == 10
    other = Passage("text", True, (*prompt[:20], *first.tokens[55:]), 20)
    assert record(draft, other) == record(target.near_copy(2), other)


def test_expected_tokens_are_thousandths_of_probabilities() -> None:
    target = TableModel.random(3, 7)
    passage = greedy_passage(target, (1, 2), 40)
    expected: Counter[int] = Counter()
    record(target, passage, expected)
    wanted = np.zeros(7)
    for end in range(2, 42):
        row = target.next_logits(passage.tokens[:end])
        weights = np.exp(row - row.max())
        wanted += 1000 * weights / weights.sum()
    assert [expected[token] for token in range(7)] == pytest.approx(wanted, abs=40)


@given(agreed=agreements, draft_length=st.integers(1, 8))
def test_acceptance_is_that_of_a_loop(agreed: list[list[bool]], draft_length: int) -> None:
    lengths: list[int] = []
    for reply in agreed:
        place = 0
        while len(reply) - place >= draft_length:
            accepted = 0
            while accepted < draft_length and reply[place + accepted]:
                accepted += 1
            lengths.append(accepted)
            place += accepted + 1
    found = acceptance([agreeing(reply) for reply in agreed], draft_length)
    assert found.num_drafts == len(lengths)
    mean = sum(lengths) / len(lengths) if lengths else 0.0
    assert found.mean_length == pytest.approx(1 + mean)
    shares = [
        sum(length > place for length in lengths) / max(1, len(lengths)) for place in range(draft_length)
    ]
    assert found.by_position == pytest.approx(shares)
    assert list(found.by_position) == sorted(found.by_position, reverse=True)


@given(st.lists(st.booleans()))
def test_a_run_ends_at_the_first_that_is_wrong(agreed: list[bool]) -> None:
    length = run_length(agreed)
    assert all(agreed[:length])
    assert length == len(agreed) or not agreed[length]
