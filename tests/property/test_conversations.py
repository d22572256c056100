"""Whatever happens in a conversation, and wherever its file breaks off, what was recorded comes back."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from homespec.sessions.conversation import Conversation, apply, begin
from homespec.sessions.events import Event, Start, UserTurn, from_json, to_json
from homespec.sessions.export import to_json as export_json
from homespec.sessions.export import to_markdown
from homespec.sessions.log import SessionLog, parse, read
from homespec.sessions.store import list_sessions
from homespec.sessions.thinking import without_thinking
from tests.support.conversations import EVENTS, TEXTS, possible

START = Start("id", 1.5, "model", "Be brief.", {"temperature": 0.5})


def states(events: list[Event]) -> list[Conversation]:
    """Before all events, and after each."""
    found = [begin(START)]
    for event in events:
        found.append(apply(found[-1], event))
    return found


@given(EVENTS)
def test_an_event_survives_json(event: Event) -> None:
    import json

    assert from_json(json.loads(json.dumps(to_json(event)))) == event


@settings(deadline=None, max_examples=60)
@given(st.lists(EVENTS, max_size=15), st.data())
def test_a_log_read_is_the_conversation_that_was_led(events: list[Event], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        log = SessionLog.create("model", "Be brief.", {"temperature": 0.5}, directory)
        events = [UserTurn("first"), *events]
        events = possible(log.conversation, events)
        reopen_at = data.draw(st.integers(0, len(events)))
        for number, event in enumerate(events):
            assert log.append(event) is None
            if number == reopen_at:
                log.close()
                log = SessionLog.open(log.path)
                assert log.notices == ()
        log.close()
        reading = read(log.path)
        assert reading.notices == ()
        assert reading.conversation == log.conversation
        (info,) = list_sessions(directory)
        assert info.title == log.conversation.title
        to_markdown(reading.conversation).encode("utf-8", "replace")
        assert len(export_json(reading.conversation)["turns"]) == len(reading.conversation.turns)


@settings(deadline=None, max_examples=30)
@given(st.lists(EVENTS, max_size=6), TEXTS)
def test_a_file_that_breaks_off_anywhere_is_a_beginning_and_takes_what_follows(
    events: list[Event], text: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        log = SessionLog.create("model", directory=Path(name))
        events = possible(log.conversation, [UserTurn("first"), *events])
        ends, led = [], []
        for event in events:
            log.append(event)
            ends.append(log.path.stat().st_size)
            led.append(log.conversation)
        log.close()
        content = log.path.read_bytes()
        # The first write holds two lines; the start alone is a conversation as well.
        start_end = content.index(b"\n") + 1
        before = parse(content[:start_end], "x").conversation
        for length in range(start_end, len(content) + 1):
            num_whole = sum(end <= length for end in ends)
            expected = led[num_whole - 1] if num_whole else before
            log.path.write_bytes(content[:length])
            reading = read(log.path)
            assert reading.conversation == expected
            assert bool(reading.notices) == (length not in (start_end, *ends))
        with SessionLog.open(log.path) as again:
            again.append(UserTurn(text))
            assert read(log.path).conversation == again.conversation == apply(led[-1], UserTurn(text))
        cut = len(content) - 2
        log.path.write_bytes(content[:cut])
        with SessionLog.open(log.path) as again:
            assert again.notices
            again.append(UserTurn(text))
            reading = read(log.path)
            assert reading.conversation == again.conversation
            assert reading.notices == ()


@given(st.lists(EVENTS, max_size=20))
def test_messages_alternate_and_end_where_the_model_is_to_answer(events: list[Event]) -> None:
    for conversation in states(possible(begin(START), events)):
        roles = [message.role for message in conversation.messages]
        if roles[:1] == ["system"]:
            del roles[0]
        assert roles == (["user", "assistant"] * len(roles))[: len(roles)]
        assert roles[-1:] != ["user"] or not conversation.is_answered
        assert conversation.prompt("more")[-1].content == "more"
        again = conversation.prompt_again()
        assert (again == ()) == (conversation.turns == ())
        if again:
            assert again[-1].content == conversation.turns[-1].user.text


@given(st.lists(st.sampled_from(["<think>", "</think>", "a", "b", "\n"]), max_size=8).map("".join))
def test_thinking_leaves_nothing_of_itself(text: str) -> None:
    shown = without_thinking(text)
    assert without_thinking(shown) == shown
    if "think>" not in text:
        assert shown == text
