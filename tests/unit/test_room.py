"""Which turns leave a full context."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.engine.room import (
    LOW_SHARE,
    ContextUse,
    choose_cut,
    context_use,
    reply_reserve,
    summary_tokens,
)
from homespec.errors import ContextOverflowError
from homespec.records import Message
from homespec.sessions.conversation import Conversation, apply
from homespec.sessions.events import AssistantTurn, ContextCut, UserTurn


def count(messages: Sequence[Message]) -> int:
    """A token for each letter, and four for each message."""
    return sum(4 + len(message.content) for message in messages)


def conversation(*lengths: int, system: str = "s" * 6) -> Conversation:
    """Turns of which message and reply have so many tokens each."""
    led = Conversation("id", 0.0, "model", system)
    for length in lengths:
        led = apply(apply(led, UserTurn("u" * length)), AssistantTurn("a" * length))
    return led


def test_the_reserve_grows_with_the_context_and_obeys_a_limit() -> None:
    assert reply_reserve(4096) == 512
    assert reply_reserve(65536) == 1024
    assert reply_reserve(4096, max_tokens=64) == 64
    assert reply_reserve(4096, max_tokens=4000) == 512
    assert reply_reserve(16) == 2


def test_how_full_it_is() -> None:
    use = context_use([Message("user", "x" * 96)], count, 400, 50)
    assert use == ContextUse(400, 100, 50)
    assert use.share == 0.25
    assert use.free_tokens == 250
    assert use.fits
    assert not use.nearly_full
    assert ContextUse(400, 251, 50).nearly_full
    assert ContextUse(400, 350, 50).fits
    assert not ContextUse(400, 351, 50).fits


def test_so_many_turns_go_that_it_does_not_happen_with_every_turn() -> None:
    led = conversation(*[16] * 10)  # 40 tokens a turn
    cut = choose_cut(led, "new!", count, context_tokens=440, reserve_tokens=40)
    after = apply(led, ContextCut(cut.num_turns))
    assert count(after.prompt("new!")) == cut.use.prompt_tokens <= LOW_SHARE * 400
    one_less = apply(led, ContextCut(cut.num_turns - 1))
    assert count(one_less.prompt("new!")) > LOW_SHARE * 400
    assert after.messages[0] == Message("system", "s" * 6)
    # The next cut goes on from there.
    again = choose_cut(after, "new!", count, context_tokens=440, reserve_tokens=40)
    assert again.num_turns == cut.num_turns + 1


def test_the_last_turn_stays_where_it_fits() -> None:
    led = conversation(16, 16, 130)
    cut = choose_cut(led, "new!", count, context_tokens=440, reserve_tokens=40)
    assert cut.num_turns == 1
    assert cut.use.fits


def test_everything_goes_before_a_message_is_refused() -> None:
    cut = choose_cut(conversation(16, 16), "x" * 370, count, context_tokens=440, reserve_tokens=40)
    assert cut.num_turns == 2
    with pytest.raises(ContextOverflowError, match="440"):
        choose_cut(conversation(16, 16), "x" * 390, count, context_tokens=440, reserve_tokens=40)
    with pytest.raises(ContextOverflowError):
        choose_cut(conversation(), "x" * 500, count, context_tokens=440, reserve_tokens=40)


def test_a_summary_is_counted_and_an_earlier_one_kept_by_drop_alone() -> None:
    led = apply(conversation(*[16] * 20), ContextCut(2, "y" * 100))
    dropped = choose_cut(led, "new!", count, 1000, 100, "drop")
    assert dropped.use.prompt_tokens == count(
        apply(led, ContextCut(dropped.num_turns, "y" * 100)).prompt("new!")
    )
    summed = choose_cut(led, "new!", count, 1000, 100, "summarize")
    without = count(apply(led, ContextCut(summed.num_turns, "")).prompt("new!"))
    assert summed.use.prompt_tokens == without + summary_tokens(1000)
    assert summed.num_turns > dropped.num_turns


@given(
    st.lists(st.integers(0, 80), max_size=12),
    st.integers(0, 300),
    st.integers(64, 700),
    st.sampled_from(["drop", "summarize"]),
)
def test_a_cut_always_fits_or_nothing_does(
    lengths: list[int], text_length: int, context_tokens: int, policy: str
) -> None:
    led, text = conversation(*lengths), "x" * text_length
    reserve = reply_reserve(context_tokens)
    try:
        cut = choose_cut(led, text, count, context_tokens, reserve, policy)  # type: ignore[arg-type]
    except ContextOverflowError:
        everything = apply(led, ContextCut(len(led.turns), "" if policy == "summarize" else None))
        extra = summary_tokens(context_tokens) if policy == "summarize" else 0
        assert not lengths or count(everything.prompt(text)) + extra + reserve > context_tokens
        return
    assert cut.use.fits
    assert 1 <= cut.num_turns <= len(lengths)
