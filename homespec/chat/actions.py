"""What the commands about the conversation do."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from homespec.chat.figures import stats_table, why_no_drafts
from homespec.chat.reading import edited
from homespec.chat.terminal import harmless
from homespec.errors import ConfigError
from homespec.sessions.events import Clear, TitleChange, Undo
from homespec.sessions.export import to_json, to_markdown
from homespec.sessions.store import find_session, list_sessions
from homespec.units import format_bytes

if TYPE_CHECKING:
    from homespec.chat.chat import Chat

_LISTED_SESSIONS = 10


def edit(chat: Chat, argument: str) -> None:
    """Lets the next message be written in an editor; it can still be changed before it is sent."""
    chat.default = edited(argument, os.environ)


def regenerate(chat: Chat, _argument: str) -> None:
    """Answers the last message anew; the old reply stays until the new one is there."""
    chat.regenerate()


def undo(chat: Chat, _argument: str) -> None:
    """Takes the last turn back and offers its message for editing."""
    turns = chat.conversation.turns
    if not turns:
        raise ConfigError("There is nothing to take back.", hint="Ask something first.")
    chat.record(Undo())
    chat.default = turns[-1].user.typed or turns[-1].user.text
    chat.terminal.quiet(f"Taken back; {_turns(len(turns) - 1)} left.")


def clear(chat: Chat, _argument: str) -> None:
    """Forgets all turns."""
    number = len(chat.conversation.turns)
    chat.record(Clear())
    chat.terminal.quiet(f"Forgot {_turns(number)}. The system message and all settings stay.")


def save(chat: Chat, argument: str) -> None:
    """Names the conversation."""
    if not chat.conversation.turns:
        raise ConfigError("There is nothing to save yet.", hint="Ask something first.")
    if argument:
        chat.record(TitleChange(argument))
    chat.terminal.note(f"Saved as {chat.conversation.title!r} ({chat.conversation.id}) in {chat.log.path}.")
    chat.terminal.quiet(f"homespec chat --load {chat.conversation.id} goes on with it.")


def load(chat: Chat, argument: str) -> None:
    """Goes on with another conversation, or lists them."""
    if argument:
        chat.load(find_session(argument).path)
        return
    found = list_sessions()
    if not found:
        chat.terminal.note("There are no saved conversations.")
    chat.terminal.table((info.id, harmless(info.title)) for info in found[:_LISTED_SESSIONS])
    if len(found) > _LISTED_SESSIONS:
        chat.terminal.quiet(f"{len(found) - _LISTED_SESSIONS} more: homespec sessions list")


def export(chat: Chat, argument: str) -> None:
    """Writes the conversation to a file of the user's; never over another one."""
    path = Path(argument).expanduser()
    if not argument or path.suffix not in (".md", ".json"):
        raise ConfigError("Where to?", hint="/export notes.md, or /export notes.json.")
    if path.suffix == ".md":
        text = to_markdown(chat.conversation)
    else:
        text = json.dumps(to_json(chat.conversation), ensure_ascii=False, indent=2) + "\n"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path} is there already.", hint="Name another file.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", hint="Name another file.") from None
    chat.terminal.note(f"Wrote {_turns(len(chat.conversation.turns))} to {path}.")


def stats(chat: Chat, _argument: str) -> None:
    """Shows everything known about the last reply."""
    if chat.last_reply is None:
        raise ConfigError("There is no reply yet.", hint="Ask something first.")
    chat.terminal.table(stats_table(chat.last_reply, chat.display_share))


def context(chat: Chat, _argument: str) -> None:
    """Shows what fills the context."""
    conversation, use = chat.conversation, chat.context_use()
    cached = chat.engine.opened_models["target"].context.num_cached_tokens
    system = chat.count(conversation.messages[:1]) if conversation.system else 0
    rows = [
        ("holds", f"{use.context_tokens:,} tokens"),
        ("in use", f"{use.prompt_tokens:,} ({use.share:.0%})"),
        ("system message", f"{system:,}" if system else "none"),
        ("turns", f"{len(conversation.turns) - conversation.num_cut_turns} shown to the model"),
        ("for the reply", f"{use.reserve_tokens:,} kept free"),
        ("free", f"{max(0, use.free_tokens):,}"),
        ("KV cache", f"{cached:,} tokens need not be read again"),
    ]
    if conversation.num_cut_turns:
        how = "left out; a summary stands for them" if conversation.summary else "left out"
        rows.insert(4, ("", f"{conversation.num_cut_turns} older ones {how}"))
    chat.terminal.table(rows)


def plan(chat: Chat, _argument: str) -> None:
    """Shows the memory plan, and why there are drafts or none."""
    engine = chat.engine
    preparation, summary = engine.preparation, engine.plan
    draft = preparation.draft.model.name if preparation.draft else "none"
    rows = [
        ("target", f"{engine.target_name} ({preparation.target.facts.quantization})"),
        ("draft model", draft),
        ("context", f"{engine.context_tokens:,} tokens"),
        ("drafters", " and ".join(engine.drafters) or "none"),
        ("drafts", why_no_drafts(summary) or f"On. {summary.explanation}"),
    ]
    if summary.needed_bytes and summary.headroom_bytes:
        headroom = format_bytes(summary.headroom_bytes)
        rows.append(("memory", f"{format_bytes(summary.needed_bytes)} of {headroom} that could be had"))
    if chat.drafting != "auto":
        rows.append(("/spec", f"{chat.drafting}, by you"))
    rows += [("to change that", advice) for advice in preparation.plan.advice]
    chat.terminal.table(rows)


def leave(chat: Chat, _argument: str) -> None:
    """Ends the chat."""
    chat.exit_code = 0


def _turns(number: int) -> str:
    return f"{number} turn{'' if number == 1 else 's'}"
