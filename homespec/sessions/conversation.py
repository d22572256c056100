"""The state of a conversation, and how events change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

from homespec.records import Message
from homespec.sessions.events import (
    AssistantTurn,
    Clear,
    ContextCut,
    Event,
    Json,
    ModelChange,
    SettingsChange,
    Start,
    SystemChange,
    TitleChange,
    Undo,
    UserTurn,
)
from homespec.sessions.thinking import without_thinking

SUMMARY_QUESTION = (
    "Summarize what we have said so far, for yourself: you will see this summary in place of it. Keep names, "
    "numbers, decisions and open questions. Use at most 150 words."
)
"""Stands before the summary in the context, and is the very question that the model answered with it."""

_TITLE_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Turn:
    """A user message, and its answer once there is one."""

    user: UserTurn
    assistant: AssistantTurn | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """Everything that was said, and what of it the model is shown.

    Attributes:
        id: names it.
        created_at: seconds since 1970.
        model: who answers now.
        system: the system message now.
        settings: whatever the chat is set to, by name.
        title: as given, or the beginning of the first user message; empty before that.
        turns: all of them, oldest first.
        num_cut_turns: how many of the oldest the model is not shown any more, as the context was full.
        summary: what it is shown in their place.
    """

    id: str
    created_at: float
    model: str
    system: str | None = None
    settings: Mapping[str, Json] = field(default_factory=dict)
    title: str = ""
    turns: tuple[Turn, ...] = ()
    num_cut_turns: int = 0
    summary: str | None = None

    @property
    def is_answered(self) -> bool:
        """Whether the last turn has its reply. It has none while it is made, or if that was cut short."""
        return not self.turns or self.turns[-1].assistant is not None

    @property
    def messages(self) -> tuple[Message, ...]:
        """What the model is shown.

        A message that never got its answer is shown only while it is the last one: most chat templates refuse
        two user messages in a row. Thinking is left out, unless the setting `thinking` is `keep`.
        """
        shown: list[Message] = [Message("system", self.system)] if self.system else []
        if self.summary is not None:
            shown += [Message("user", SUMMARY_QUESTION), Message("assistant", self.summary)]
        for turn in self.turns[self.num_cut_turns :]:
            if turn.assistant is not None:
                shown += [Message("user", turn.user.text), self._shown(turn.assistant)]
        if not self.is_answered:
            shown.append(Message("user", self.turns[-1].user.text))
        return tuple(shown)

    def _shown(self, reply: AssistantTurn) -> Message:
        text = reply.text
        if self.settings.get("thinking") != "keep":
            text = without_thinking(text)
        return Message("assistant", text, reply.token_ids if text == reply.text else ())

    def prompt(self, text: str) -> tuple[Message, ...]:
        """What the model is shown when the user says something more."""
        return apply(self, UserTurn(text)).messages

    def prompt_again(self) -> tuple[Message, ...]:
        """What the model is shown to answer the last turn anew; empty where there is none."""
        if not self.turns:
            return ()
        unanswered = replace(self.turns[-1], assistant=None)
        return replace(self, turns=(*self.turns[:-1], unanswered)).messages


def apply(conversation: Conversation, event: Event) -> Conversation:  # noqa: C901 - one line for each event
    """The conversation after an event.

    Raises:
        ValueError: the event cannot happen here: a second start, a reply without a question, a blank title,
            or a cut of more turns than there are.
    """
    match event:
        case Start():
            raise ValueError("a conversation starts once")
        case UserTurn():
            title = conversation.title or title_of(event)
            return replace(conversation, turns=(*conversation.turns, Turn(event)), title=title)
        case AssistantTurn():
            if not conversation.turns or (conversation.is_answered and not event.regenerated):
                raise ValueError("a reply without a question")
            answered = replace(conversation.turns[-1], assistant=event)
            return replace(conversation, turns=(*conversation.turns[:-1], answered))
        case Undo():
            return _without_last_turn(conversation)
        case Clear():
            return replace(conversation, turns=(), num_cut_turns=0, summary=None)
        case SystemChange():
            return replace(conversation, system=event.system)
        case ModelChange():
            return replace(conversation, model=event.model)
        case SettingsChange():
            return replace(conversation, settings={**conversation.settings, **event.settings})
        case TitleChange():
            if not event.title.strip():
                raise ValueError("a title without a letter")
            return replace(conversation, title=event.title)
        case ContextCut():
            if not 0 <= event.num_turns <= len(conversation.turns):
                raise ValueError("more turns are cut than there are")
            return replace(conversation, num_cut_turns=event.num_turns, summary=event.summary)


def begin(start: Start) -> Conversation:
    """The conversation after its first event."""
    return Conversation(start.id, start.created_at, start.model, start.system, dict(start.settings))


def replay(start: Start, events: Iterable[Event]) -> Conversation:
    """The conversation after its first event and all others.

    Raises:
        ValueError: see `apply`.
    """
    return reduce(apply, events, begin(start))


def _without_last_turn(conversation: Conversation) -> Conversation:
    turns = conversation.turns[:-1]
    if len(turns) < conversation.num_cut_turns:
        # The summary tells about a turn that never was: the turns come back, and are cut anew if need be.
        return replace(conversation, turns=turns, num_cut_turns=0, summary=None)
    return replace(conversation, turns=turns)


def title_of(first: UserTurn) -> str:
    """The beginning of a conversation's first message, in one line; never empty."""
    line = " ".join((first.typed or first.text).split()) or "(blank)"
    return line if len(line) <= _TITLE_CHARACTERS else line[: _TITLE_CHARACTERS - 1].rstrip() + "…"
