"""The commands of the chat: names, help, and what is meant by a line."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from homespec.chat import actions, choices
from homespec.errors import ConfigError

if TYPE_CHECKING:
    from homespec.chat.chat import Chat


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    Attributes:
        name: with its slash.
        arguments: as help shows them.
        help: one line.
        run: does it, given the chat and the rest of the line.
    """

    name: str
    arguments: str
    help: str
    run: Callable[[Chat, str], None]


def _help(chat: Chat, _argument: str) -> None:
    chat.terminal.table((f"{command.name} {command.arguments}".strip(), command.help) for command in COMMANDS)
    chat.terminal.quiet(
        'Several lines: """ before and after, Alt-Enter, or paste. A file: @path. '
        "Ctrl-R searches earlier lines. Ctrl-C stops a reply, Ctrl-C again leaves."
    )


COMMANDS = (
    Command("/help", "", "Show this.", _help),
    Command("/model", "[NAME]", "Show the models, or go on with another one.", choices.model),
    Command("/draft", "[auto|off|ngram|NAME]", "Show or change who drafts.", choices.draft),
    Command("/spec", "[on|off|auto|show]", "Draft always, never, where it pays; tint drafts.", choices.spec),
    Command("/set", "[NAME VALUE]", "Show or change how replies are sampled.", choices.set_parameter),
    Command("/system", "[TEXT|@FILE|off]", "Show or change the system message.", choices.system),
    Command("/think", "[show|hide]", "Show or fold the model's thinking.", choices.think),
    Command("/edit", "[TEXT]", "Write the next message in $EDITOR.", actions.edit),
    Command("/regen", "", "Ask for another reply to the last message.", actions.regenerate),
    Command("/undo", "", "Take the last message and its reply back.", actions.undo),
    Command("/clear", "", "Forget the conversation; settings stay.", actions.clear),
    Command("/save", "[NAME]", "Name the conversation; every reply is saved anyway.", actions.save),
    Command("/load", "[NAME]", "List conversations, or go on with one.", actions.load),
    Command("/export", "FILE", "Write the conversation to FILE.md or FILE.json.", actions.export),
    Command("/stats", "", "Show all figures of the last reply.", actions.stats),
    Command("/context", "", "Show what fills the context.", actions.context),
    Command("/plan", "", "Show the memory plan, and why there are drafts or none.", actions.plan),
    Command("/exit", "", "Leave (also Ctrl-D).", actions.leave),
)  # fmt: skip

_ALIASES = {
    "/?": "/help",
    "/h": "/help",
    "/bye": "/exit",
    "/new": "/clear",
    "/quit": "/exit",
    "/reset": "/clear",
    "/retry": "/regen",
    "/temp": "/set temperature",
}


def is_command(line: str) -> bool:
    """Whether a line is meant as a command: a slash and a word, and no path or comment."""
    word = line.split(maxsplit=1)[0] if line.strip() else ""
    name = word[1:]
    return word.startswith("/") and (name == "?" or name.isalpha()) and not line.startswith(" ")


def find_command(line: str) -> tuple[Command, str]:
    """The command of a line, and its argument.

    Raises:
        ConfigError: there is no such command; suggests the nearest one.
    """
    word, _, argument = line.strip().partition(" ")
    name, _, first = _ALIASES.get(word.lower(), word.lower()).partition(" ")
    names = [command.name for command in COMMANDS]
    matches = [known for known in names if known == name] or [
        known for known in names if known.startswith(name)
    ]
    if len(matches) == 1:
        found = next(command for command in COMMANDS if command.name == matches[0])
        return found, f"{first} {argument}".strip()
    near = matches or difflib.get_close_matches(name, [*names, *_ALIASES], n=1, cutoff=0.6)
    suggestion = f"Did you mean {' or '.join(near)}?" if near else "/help lists the commands."
    raise ConfigError(
        f"There is no command {word}.",
        hint=f"{suggestion} A message may begin with a space and then a slash.",
    )
