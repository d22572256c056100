from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from homespec.contracts import KeepGoing
from homespec.drafting.draft_model import DraftModelDrafter
from homespec.drafting.prefix import common_prefix_length, rewind
from homespec.records import SamplingParams
from homespec.sampling import make_sampling
from tests.support.table_model import TableModel

token_lists = st.lists(st.integers(0, 2), max_size=30)


@given(token_lists, token_lists, token_lists)
def test_the_common_prefix(shared: list[int], first: list[int], second: list[int]) -> None:
    first, second = shared + first, shared + second
    length = common_prefix_length(first, second)
    assert first[:length] == second[:length]
    assert first[length : length + 1] != second[length : length + 1] or length == min(len(first), len(second))


@given(token_lists, token_lists.filter(bool))
def test_rewind_keeps_what_can_be_kept(cached: list[int], tokens: list[int]) -> None:
    model = TableModel.random(0, 3)
    if cached:
        model.decode(cached)
    kept = rewind(model, tokens)
    assert kept == min(common_prefix_length(cached, tokens), len(tokens) - 1)
    assert model.cached_tokens == tokens[:kept]


def always(_confidence: float) -> bool:
    return True


def never(_confidence: float) -> bool:
    return False


@given(
    st.lists(
        st.tuples(
            token_lists.filter(bool), st.integers(0, 30), st.integers(1, 6), st.sampled_from([always, never])
        ),
        min_size=1,
        max_size=8,
    )
)
def test_a_draft_model_follows_any_history(calls: list[tuple[list[int], int, int, KeepGoing]]) -> None:
    # Whatever was proposed and rejected before, the proposal is the draft model's own greedy continuation,
    # and its cache never claims more than it was given.
    model, fresh = TableModel.random(7, 3), TableModel.random(7, 3)
    drafter = DraftModelDrafter(
        model, make_sampling(SamplingParams(temperature=0)).picker, lambda _token: False
    )
    history: list[int] = []
    for text, shared, max_tokens, keep_going in calls:
        history = history[:shared] + text
        draft = drafter.propose(history, max_tokens, keep_going)
        expected = list(history)
        for _ in range(max_tokens if keep_going is always else 0):
            expected.append(int(fresh.next_logits(expected).argmax()))
        assert list(history) + list(draft.tokens) == expected
        assert model.cached_tokens == expected[: len(model.cached_tokens)]
        assert len(draft.confidences) == len(draft.tokens)
        history = expected


def test_a_known_history_is_decoded_once() -> None:
    model = TableModel.random(7, 3)
    drafter = DraftModelDrafter(
        model, make_sampling(SamplingParams(temperature=0)).picker, lambda _token: False
    )
    history = [0, 1, 2] * 10
    draft = drafter.propose(history, 4, always)
    assert model.num_decoded_tokens == len(history) + 3
    # All accepted and a bonus token: the last drafted token and the bonus are new to the draft model.
    drafter.propose([*history, *draft.tokens, 1], 1, always)
    assert model.num_decoded_tokens == len(history) + 3 + 2


def test_nothing_is_drafted_after_a_stop_token() -> None:
    picker = make_sampling(SamplingParams(temperature=0)).picker
    ends_at_once = DraftModelDrafter(TableModel.random(7, 9), picker, lambda token: token != 1)
    assert len(ends_at_once.propose([0, 1], 5, always).tokens) == 1


def test_a_small_context_reads_a_window_that_seldom_moves() -> None:
    model, whole = TableModel.random(7, 3, context_tokens=16), TableModel.random(7, 3)
    picker = make_sampling(SamplingParams(temperature=0)).picker
    narrow, wide = (DraftModelDrafter(m, picker, lambda _token: False) for m in (model, whole))
    history = [0, 1, 2]
    for _ in range(100):
        # The table looks two tokens back, so what is out of the window does not matter to it.
        draft = narrow.propose(history, 4, always)
        assert draft.tokens == wide.propose(history, 4, always).tokens
        history.append(draft.tokens[0])
    # Each token of the history enters the cache at most twice, and three drafted ones are decoded per step.
    assert model.num_decoded_tokens <= 2 * len(history) + 3 * 100
