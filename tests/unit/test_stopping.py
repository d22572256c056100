from __future__ import annotations

import pytest

from homespec.decoding.stopping import Stopping


def make(pieces: list[bytes], *stops: str, max_tokens: int | None = None) -> Stopping:
    """Token i adds pieces[i]; token 99 ends the reply."""
    return Stopping(
        is_end=lambda token: token == 99,
        token_bytes=lambda token: b"" if token == 99 else pieces[token],
        stop_strings=stops,
        max_tokens=max_tokens,
        context_tokens=1000,
    )


def test_characters_are_held_back_until_they_are_whole() -> None:
    stopping = make([bytes([byte]) for byte in "한🙂".encode()])
    shown = []
    for token in range(7):
        assert stopping.commit(token, token) is None
        shown.append(stopping.take_text())
    assert shown == ["", "", "한", "", "", "", "🙂"]


def test_an_unfinished_character_becomes_a_replacement_at_the_end() -> None:
    stopping = make([b"a", "한".encode()[:2]])
    stopping.commit(0, 1)
    stopping.commit(1, 2)
    assert stopping.finish_text() == "a\ufffd"


def test_the_beginning_of_a_stop_string_is_held_back_and_released() -> None:
    stopping = make([b"x", b"E", b"N", b"y"], "END")
    shown = []
    for token in range(4):
        assert stopping.commit(token, token) is None
        shown.append(stopping.take_text())
    assert shown == ["x", "", "", "ENy"]


def test_a_held_back_beginning_is_text_when_the_reply_ends_there() -> None:
    stopping = make([b"xE"], "END")
    stopping.commit(0, 1)
    assert stopping.commit(99, 2) == "stop"
    assert stopping.finish_text() == "xE"


def test_the_earliest_of_several_stop_strings_wins() -> None:
    stopping = make([b"one two three"], "three", "two")
    assert stopping.commit(0, 1) == "stop"
    assert stopping.finish_text() == "one "


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_stop_string_may_span_tokens(cut: int) -> None:
    text = b"ab\n\nUser:"
    stopping = make([text[: 2 + cut], text[2 + cut :] + b" tail"], "\n\nUser:")
    assert stopping.commit(0, 1) is None
    assert stopping.commit(1, 2) == "stop"
    assert stopping.finish_text() == "ab"


def test_a_stop_string_may_begin_inside_a_character_sequence() -> None:
    stopping = make(["가".encode()[:1], "가".encode()[1:] + "나".encode()], "나")
    stopping.commit(0, 1)
    assert stopping.commit(1, 2) == "stop"
    assert stopping.finish_text() == "가"


def test_empty_stop_strings_are_no_stop_strings() -> None:
    stopping = make([b"a"], "")
    assert stopping.commit(0, 1) is None


def test_the_budget_ends_the_reply_after_its_last_token() -> None:
    stopping = make([b"a", b"b"], max_tokens=2)
    assert stopping.room(10) == 2
    assert stopping.commit(0, 11) is None
    assert stopping.room(11) == 1
    assert stopping.commit(1, 12) == "length"
