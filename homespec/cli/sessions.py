"""`homespec sessions`: list, show and remove conversations."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import TYPE_CHECKING, Any

import click

from homespec.sessions.export import to_json, to_markdown
from homespec.sessions.log import read, sessions_directory
from homespec.sessions.store import find_session, list_sessions, remove_session

if TYPE_CHECKING:
    from homespec.sessions.store import SessionInfo


@click.group()
def group() -> None:
    """List, show and remove conversations of `homespec chat`.

    They lie in the XDG state directory, or where HOMESPEC_STATE points.
    """


command = group


@group.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the table.")
def list_all(as_json: bool) -> None:
    """List all conversations, the latest first."""
    found = list_sessions()
    if as_json:
        _print_json({"directory": str(sessions_directory()), "sessions": [_facts(info) for info in found]})
        return
    if not found:
        click.echo("No conversations yet.", err=True)
        return
    header = ("ID", "LAST USED", "MODEL", "TITLE")
    rows = [(info.id, _time(info.updated_at), _shown(info.model), _shown(info.title)) for info in found]
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(3)]
    for row in (header, *rows):
        # The title comes last: it may be of any script, whose characters are wider than one column.
        line = "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        click.echo(click.style(line, bold=True) if row is header else line)


@group.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of Markdown.")
def show(name: str, as_json: bool) -> None:
    """Show a conversation: NAME is its id, the beginning of it, its title, or `latest`."""
    reading = read(find_session(name).path)
    for notice in reading.notices:
        click.echo(notice, err=True)
    if as_json:
        _print_json(to_json(reading.conversation))
    else:
        click.echo(_encodable(to_markdown(reading.conversation)), nl=False)


@group.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def rm(names: tuple[str, ...]) -> None:
    """Remove conversations, with what was kept of their KV caches."""
    # All names are looked up first: nothing is removed where one is mistyped.
    for info in {info.id: info for info in map(find_session, names)}.values():
        remove_session(info)
        click.echo(f"Removed {info.id} ({_shown(info.title)}).", err=True)


def _facts(info: SessionInfo) -> dict[str, Any]:
    return {**dataclasses.asdict(info), "path": str(info.path)}


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _shown(text: str) -> str:
    """A user's text on one line, without anything that a terminal would obey."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )


def _print_json(data: dict[str, Any]) -> None:
    click.echo(_encodable(json.dumps(data, ensure_ascii=False)))


def _encodable(text: str) -> str:
    """Without unpaired surrogates, which a pipe with bytes of no encoding leaves in a message."""
    return text.encode("utf-8", "replace").decode()
