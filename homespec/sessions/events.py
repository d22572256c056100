"""What happens in a conversation. Each event is one line of its log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from homespec.records import Reply

FORMAT = 1
"""Of the log. A higher one was written by a newer homespec."""

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]

# Figures of a reply that are worth keeping with it.
_KEPT_STATS = (
    "prompt_tokens",
    "reused_prompt_tokens",
    "prefilled_tokens",
    "completion_tokens",
    "ttft_seconds",
    "tokens_per_second",
    "num_drafts",
    "num_draft_tokens",
    "num_accepted_tokens",
    "speedup",
)


@dataclass(frozen=True, slots=True)
class Start:
    """The conversation begins; always the first event, and nowhere else.

    Attributes:
        id: names the conversation and its file.
        created_at: seconds since 1970.
        model: the target's name or path.
        system: the system message; None for none.
        settings: whatever the chat was set to, by name.
    """

    id: str
    created_at: float
    model: str
    system: str | None = None
    settings: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UserTurn:
    """The user says something.

    Attributes:
        text: what the model is shown.
        typed: what was typed, where files or the like were put in its place; None where it is `text`.
    """

    text: str
    typed: str | None = None


@dataclass(frozen=True, slots=True)
class AssistantTurn:
    """The reply to the last user turn.

    Attributes:
        text: the whole reply, or what there was when it was interrupted.
        token_ids: as they were generated, so that the KV cache can be reused to the last of them.
        finish_reason: of the reply.
        model: who gave it.
        drafter: who drafted.
        stats: figures of the reply, named as in `GenerationStats`.
        regenerated: it takes the place of an earlier reply to the same turn. That one is gone only when this
            one is there, whatever happens in between.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    finish_reason: str = "stop"
    model: str = ""
    drafter: str = ""
    stats: Mapping[str, Json] = field(default_factory=dict)
    regenerated: bool = False

    @classmethod
    def of(cls, reply: Reply, *, regenerated: bool = False) -> AssistantTurn:
        """The event for a reply that was generated."""
        return cls(
            text=reply.text,
            token_ids=reply.token_ids,
            finish_reason=reply.finish_reason,
            model=reply.target,
            drafter=reply.drafter,
            stats={name: getattr(reply.stats, name) for name in _KEPT_STATS},
            regenerated=regenerated,
        )


@dataclass(frozen=True, slots=True)
class Undo:
    """The last turn is taken back, answered or not."""


@dataclass(frozen=True, slots=True)
class Clear:
    """All turns are forgotten; model, system message and settings stay."""


@dataclass(frozen=True, slots=True)
class SystemChange:
    """The system message is another one from now on; None for none."""

    system: str | None


@dataclass(frozen=True, slots=True)
class ModelChange:
    """Another model answers from now on."""

    model: str


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """These settings have other values from now on; the others stay."""

    settings: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class TitleChange:
    """The conversation got a name."""

    title: str


@dataclass(frozen=True, slots=True)
class ContextCut:
    """The context was full: from now on the model is not shown the oldest turns.

    Attributes:
        num_turns: how many, counted from the first turn of the conversation.
        summary: what stands in their place; None for nothing.
    """

    num_turns: int
    summary: str | None = None


Event = (
    Start
    | UserTurn
    | AssistantTurn
    | Undo
    | Clear
    | SystemChange
    | ModelChange
    | SettingsChange
    | TitleChange
    | ContextCut
)

_KINDS: dict[str, type[Event]] = {
    "start": Start,
    "user": UserTurn,
    "assistant": AssistantTurn,
    "undo": Undo,
    "clear": Clear,
    "system": SystemChange,
    "model": ModelChange,
    "settings": SettingsChange,
    "title": TitleChange,
    "context_cut": ContextCut,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
# What JSON must hold for a field of this annotation.
_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str, type(None)),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "tuple[int, ...]": (list,),
    "Mapping[str, Json]": (dict,),
}


def to_json(event: Event) -> dict[str, Any]:
    """Plain data, for `from_json`."""
    data = {"event": _NAMES[type(event)], **asdict(event)}
    return {**data, "format": FORMAT} if isinstance(event, Start) else data


def from_json(data: object) -> Event:
    """The inverse of `to_json`. Fields that this version does not know are left out.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(data, dict) or data.get("event") not in _KINDS:
        raise ValueError("no event")
    kind = _KINDS[data["event"]]
    values = {
        item.name: _value(str(item.type), data[item.name]) for item in fields(kind) if item.name in data
    }
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _value(annotation: str, value: Any) -> Any:  # noqa: ANN401 - what JSON holds
    # The classes themselves: True is an int to isinstance, and no number of turns.
    if type(value) not in _TYPES[annotation]:
        raise ValueError(f"{value!r} is no {annotation}")
    if not isinstance(value, list):
        return value
    if not all(type(token) is int for token in value):
        raise ValueError("a token is no number")
    return tuple(value)
