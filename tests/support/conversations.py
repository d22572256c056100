"""Events of conversations for hypothesis, and how a terminal might mangle them."""

from __future__ import annotations

from hypothesis import strategies as st

from homespec.sessions.conversation import Conversation, apply
from homespec.sessions.events import (
    AssistantTurn,
    Clear,
    ContextCut,
    Event,
    ModelChange,
    SettingsChange,
    SystemChange,
    TitleChange,
    Undo,
    UserTurn,
)

# Line breaks of all kinds, quotes, a NUL, surrogates that UTF-8 does not have: all may be pasted.
TEXTS = st.text(st.characters(codec=None), max_size=20) | st.sampled_from(
    ["\n", "\r\n", "\u2028\u0085", '"event":"title"', "\x00", "\udce9", "한국어 🙂", ""]
)
_JSON = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS

EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(UserTurn, TEXTS, st.none() | TEXTS),
    st.builds(
        AssistantTurn,
        TEXTS,
        st.lists(st.integers(0, 200_000), max_size=5).map(tuple),
        stats=st.dictionaries(st.sampled_from(["prefilled_tokens", "speedup"]), _JSON),
        regenerated=st.booleans(),
    ),
    st.just(Undo()),
    st.just(Clear()),
    st.builds(SystemChange, st.none() | TEXTS),
    st.builds(ModelChange, TEXTS),
    st.builds(SettingsChange, st.dictionaries(st.sampled_from(["temperature", "thinking"]), _JSON)),
    st.builds(TitleChange, TEXTS),
    st.builds(ContextCut, st.integers(0, 3), st.none() | TEXTS),
)


def possible(conversation: Conversation, events: list[Event]) -> list[Event]:
    """Those of the events that can happen, one after the other."""
    happened: list[Event] = []
    for event in events:
        try:
            conversation = apply(conversation, event)
        except ValueError:
            continue
        happened.append(event)
    return happened
