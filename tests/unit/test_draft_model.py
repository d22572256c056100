"""The draft model's view of the history: what it reads, and how often."""

from __future__ import annotations

from homespec.contracts import Going
from homespec.drafting.draft_model import DraftModelDrafter
from homespec.records import SamplingParams
from homespec.sampling import make_sampling
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
