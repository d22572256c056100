"""A conversation as a document."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from homespec.sessions.conversation import Conversation, Turn


def to_markdown(conversation: Conversation) -> str:
    """For people: all turns, and where the model stopped to be shown the older ones."""
    date = time.strftime("%Y-%m-%d %H:%M", time.localtime(conversation.created_at))
    parts = [f"# {conversation.title or 'Conversation'}", f"{conversation.model}, {date}"]
    if conversation.system:
        parts += ["## System", conversation.system]
    for number, turn in enumerate(conversation.turns):
        if number == conversation.num_cut_turns > 0:
            parts += _cut(conversation)
        parts += _turn(turn)
    if conversation.num_cut_turns == len(conversation.turns) > 0:
        parts += _cut(conversation)
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _turn(turn: Turn) -> list[str]:
    parts = ["## User", turn.user.typed or turn.user.text]
    if turn.assistant is None:
        return [*parts, "*(not answered)*"]
    parts += ["## Assistant", turn.assistant.text]
    if turn.assistant.finish_reason != "stop":
        parts.append(f"*({turn.assistant.finish_reason})*")
    return parts


def _cut(conversation: Conversation) -> list[str]:
    line = "---\n\n*The context was full: the model is not shown what stands above.*"
    return (
        [line]
        if conversation.summary is None
        else [line, f"*It is shown this instead:* {conversation.summary}"]
    )


def to_json(conversation: Conversation) -> dict[str, Any]:
    """For programs: the whole state as plain data, with the messages that the model is shown."""
    data = asdict(conversation)
    data["messages"] = [{"role": m.role, "content": m.content} for m in conversation.messages]
    return data
