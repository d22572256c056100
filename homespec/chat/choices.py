"""What the commands about models, drafting and replies do."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from homespec.catalog.entries import load_catalog
from homespec.catalog.store import installed
from homespec.chat.attachments import read_text
from homespec.chat.figures import why_no_drafts
from homespec.chat.parameters import NAMES
from homespec.chat.thinking import thinking_of
from homespec.chat.writers import origin_style
from homespec.errors import ConfigError
from homespec.sessions.events import ModelChange, SettingsChange, SystemChange
from homespec.units import format_bytes

if TYPE_CHECKING:
    from homespec.chat.chat import Chat


def model(chat: Chat, argument: str) -> None:
    """Goes on with another model, or lists those that are there."""
    if argument:
        chat.reopen(dataclasses.replace(chat.engine.settings, target=argument))
        chat.record(ModelChange(argument))
        chat.terminal.note(f"{chat.engine.target_name} answers from now on.")
        _tell_drafting(chat)
        return
    rows = []
    for found in installed():
        here = "answers now; " if found.name == chat.engine.target_name else ""
        summary = found.entry.summary if found.entry else "a file of your own"
        rows.append((found.name, f"{format_bytes(found.path.stat().st_size)}, {here}{summary}"))
    chat.terminal.table(rows)
    missing = [name for name in load_catalog() if name not in {row[0] for row in rows}]
    if missing:
        chat.terminal.quiet(f"Not here yet: {', '.join(missing)}. homespec models pull NAME")


def draft(chat: Chat, argument: str) -> None:
    """Changes who drafts. Models are opened anew, so the conversation is read once more."""
    if not argument:
        chat.terminal.note(f"Draft: {chat.engine.settings.draft}.")
        _tell_drafting(chat)
        return
    chat.reopen(dataclasses.replace(chat.engine.settings, draft=argument))
    _tell_drafting(chat)


def spec(chat: Chat, argument: str) -> None:
    """Draft always, never, or where it pays; or tint drafted text."""
    match argument:
        case "on" | "off" | "auto":
            chat.drafting = argument
        case "show":
            _toggle_tint(chat)
            return
        case "":
            chat.terminal.note(f"Drafting: {chat.drafting}.")
        case _:
            raise ConfigError(f"/spec does not know {argument!r}.", hint="/spec on, off, auto or show.")
    _tell_drafting(chat)


def _tell_drafting(chat: Chat) -> None:
    if chat.drafting == "off":
        chat.told_reason = "off_by_user"
        chat.terminal.quiet("No drafts (off_by_user): switched off by /spec off.")
    elif why := why_no_drafts(chat.engine.plan):
        chat.terminal.quiet(why)
    else:
        how = "in every step" if chat.drafting == "on" else "where it pays"
        chat.terminal.quiet(f"{' and '.join(chat.engine.drafters)} drafts {how}.")


def _toggle_tint(chat: Chat) -> None:
    if not chat.terminal.can_redraw:
        raise ConfigError("Drafted text cannot be tinted here.", hint="It needs a terminal, without --plain.")
    chat.tint = not chat.tint
    if not chat.tint:
        chat.terminal.note("Drafted text is not tinted any more; Markdown is drawn again.")
        return
    drafters = chat.engine.drafters or ("ngram",)
    chat.terminal.legend([(name, origin_style(chat.terminal, name)) for name in drafters])


def set_parameter(chat: Chat, argument: str) -> None:
    """Changes how replies are sampled."""
    name, _, value = argument.replace("=", " ", 1).partition(" ")
    if name == "thinking":
        if value.strip() not in ("keep", "drop"):
            raise ConfigError("What becomes of thinking?", hint="/set thinking keep, or drop.")
        chat.record(SettingsChange({"thinking": value.strip()}))
        chat.terminal.quiet(f"Thinking of earlier replies: {value.strip()}.")
    elif value.strip():
        chat.parameters = chat.parameters.changed(name, value.strip())
        chat.record(SettingsChange({chat.parameters.known(name): value.strip()}))
        chat.terminal.quiet(f"{name}: {value.strip()}")
    elif name:
        shown = dict(chat.parameters.table())
        if chat.parameters.known(name) not in shown:
            raise ConfigError(f"There is no parameter {name!r}.", hint=f"Name one of {', '.join(NAMES)}.")
        chat.terminal.note(f"{name}: {shown[chat.parameters.known(name)]}")
    else:
        thinking = str(chat.conversation.settings.get("thinking", "drop"))
        chat.terminal.table([*chat.parameters.table(), ("thinking", f"{thinking} (of earlier replies)")])


def system(chat: Chat, argument: str) -> None:
    """Changes the system message."""
    if not argument:
        chat.terminal.note(chat.conversation.system or "There is no system message.")
        return
    text = read_text(argument[1:]) if argument.startswith("@") else argument
    chat.record(SystemChange(None if text == "off" else text))
    again = " The next reply reads the conversation anew." if chat.conversation.turns else ""
    chat.terminal.quiet(f"{'No system message' if text == 'off' else 'System message set'}.{again}")


def think(chat: Chat, argument: str) -> None:
    """Shows or folds thinking; `show` shows that of the last reply as well."""
    if argument not in ("show", "hide", ""):
        raise ConfigError(f"/think does not know {argument!r}.", hint="/think show, or hide.")
    if argument:
        chat.show_thinking = argument == "show"
    turns = chat.conversation.turns
    last = turns[-1].assistant if turns else None
    if argument == "show" and last is not None and (text := thinking_of(last.text)):
        chat.terminal.quiet(text)
    else:
        chat.terminal.quiet(f"Thinking is {'shown' if chat.show_thinking else 'folded'}.")
