"""The draft model's view of the history: what it reads, and how often."""

from __future__ import annotations

import numpy as np
import pytest

from homespec.contracts import Going
from homespec.drafting.draft_model import DraftModelDrafter
from homespec.records import SamplingParams, VerifierName
from homespec.sampling import make_sampling
from tests.support.scripted import make_reply, run
from tests.support.table_model import TableModel


def drafter_of(model: TableModel, end: int = -1) -> DraftModelDrafter:
    picker = make_sampling(SamplingParams(temperature=0.0), None, None).picker
    return DraftModelDrafter(model, picker, lambda token: token == end)


def test_token_by_token_it_proposes_what_it_would_propose_at_once() -> None:
    history = [1, 2, 3]
    at_once = drafter_of(TableModel.random(1, 9)).propose(history, 6, lambda _: Going.ON)
    drafter, drafted = drafter_of(TableModel.random(1, 9)), list[int]()
    for _ in range(6):
        drafted += drafter.propose([*history, *drafted], 1, lambda _: Going.ON).tokens
    assert tuple(drafted) == at_once.tokens


def test_nothing_is_proposed_behind_the_end_of_a_reply() -> None:
    drafter = drafter_of(TableModel.random(1, 9), end=3)
    assert not drafter.propose([1, 2, 3], 4, lambda _: Going.ON).tokens
    assert drafter.propose([1, 3, 2], 4, lambda _: Going.ON).tokens


def test_rejections_near_the_place_where_the_window_moves_cost_one_reading() -> None:
    model = TableModel.random(1, 9, context_tokens=256)
    drafter = drafter_of(model)
    text = [token % 9 for token in range(600)]
    for num_committed in range(1, 500):
        # Eight tokens are drafted one by one, and all but the first are rejected.
        for num_tokens in range(num_committed, num_committed + 8):
            drafter.propose(text[:num_tokens], 1, lambda _: Going.ON)
    # The window moves on by 128 tokens, so it is read again three times; the rest is drafting.
    assert model.num_decoded_tokens < 500 * 8 + 3 * 256


@pytest.mark.parametrize("num_before", [0, 1])
@pytest.mark.parametrize("verifier", ["greedy", "rejection", "block", "coupled"])
def test_where_all_that_it_can_say_is_forbidden_the_draft_ends(
    verifier: VerifierName, num_before: int
) -> None:
    """As of a trimmed draft model that lacks every token that the request permits."""
    target, draft_model = TableModel.random(1, 6), TableModel.random(2, 6)
    forbidden = tuple((token, float("-inf")) for token in range(1, 4))
    # It knows the tokens up to 3; in the second case it says 0, which is permitted, and is at a loss then.
    draft_model.table[:, :, 4:] = -np.inf
    draft_model.table[:, 0 if num_before else slice(None), 0] = -np.inf
    params = SamplingParams(temperature=0.0 if verifier == "greedy" else 1.0, logit_bias=forbidden, seed=7)

    sampling = make_sampling(params, verifier)
    drafter = DraftModelDrafter(draft_model, sampling.picker, lambda _token: False)
    asked: list[float] = []

    def keep_going(confidence: float) -> Going:
        asked.append(confidence)
        return Going.ON

    assert drafter.propose([5, 5], 4, keep_going).tokens == (0,) * num_before
    assert len(asked) == num_before + 1  # a controller learns of each decode

    reply = make_reply([5, 5], sampling.verifier, drafter=drafter, max_tokens=30)
    steps = run(target, reply)
    assert reply.dropped is None
    assert not {1, 2, 3} & set(reply.tokens)
    assert sum(step.num_draft_tokens for step in steps) >= 5 * num_before
    if verifier in ("greedy", "coupled"):
        plain = make_reply([5, 5], make_sampling(params, verifier).verifier, max_tokens=30)
        run(TableModel.random(1, 6), plain)
        assert reply.tokens == plain.tokens
