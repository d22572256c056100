"""What may stand at the cursor."""

from __future__ import annotations

from homespec.catalog.store import installed
from homespec.chat.commands import COMMANDS
from homespec.chat.parameters import NAMES
from homespec.sessions.store import list_sessions

Suggestions = list[tuple[str, str]]

_CHOICES = {
    "/spec": ("on", "off", "auto", "show"),
    "/think": ("show", "hide"),
    "/set": (*NAMES, "thinking"),
    "/system": ("off",),
}
_DRAFTERS = ("auto", "off", "ngram")
_MOST_SESSIONS = 20


def suggest(text: str) -> Suggestions | None:
    """Completions of the last word.

    Args:
        text: before the cursor.

    Returns:
        Words with explanations, also such as do not begin like the last word; None for paths.
    """
    *before, word = text.split(" ")
    if word.rpartition("\n")[2].startswith("@"):
        return None
    if not text.startswith("/") or "\n" in text:
        return []
    if not before:
        return [(command.name, command.help) for command in COMMANDS]
    if before[0] == "/export":
        return None
    return _arguments(before[0]) if len(before) == 1 else []


def _arguments(command: str) -> Suggestions:
    if command == "/model":
        return [(model.name, model.entry.summary if model.entry else "") for model in installed()]
    if command == "/draft":
        return [(name, "") for name in (*_DRAFTERS, *(model.name for model in installed()))]
    if command == "/load":
        return [("latest", ""), *((info.id, info.title) for info in list_sessions()[:_MOST_SESSIONS])]
    return [(choice, "") for choice in _CHOICES.get(command, ())]
