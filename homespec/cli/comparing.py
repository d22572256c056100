"""What `homespec plan --compare` shows."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from homespec.units import format_bytes

if TYPE_CHECKING:
    from homespec.engine.comparing import Version
    from homespec.engine.settings import EngineSettings


def show_versions(settings: EngineSettings, others: tuple[str, ...], *, as_json: bool) -> None:
    """Plans all versions of a target, and prints what they cost and yield.

    Raises:
        ConfigError: one of the others is another model.
        ModelError: one of them is missing or damaged.
    """
    from homespec.engine.comparing import KINDS, advise, compare

    comparison = compare(settings, others)
    versions = comparison.versions
    if as_json:
        click.echo(json.dumps({**dataclasses.asdict(comparison), "advice": advise(versions)}))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("version", overflow="fold")
    titles = ["bits/\nweight", "memory\nplain", "with\ndrafts", "speed,\nprompt", "plain"]
    for title in (*titles, *(f"drafts,\n{kind}" for kind in KINDS)):
        table.add_column(title, justify="right", no_wrap=True)
    rows = [_row(version, KINDS) for version in versions]
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(table)
    for note in _notes(rows, comparison.headroom_bytes):
        console.print(note)
    for version in versions:
        if version.is_present and version.draft != settings.draft:
            console.print(f"{version.name} drafts with --draft {version.draft}.")
        if version.command is not None:
            # A command stays on one line, to be copied.
            console.print(f"{version.name} {_lack(version)}:")
            click.echo(f"  {version.command}")
    console.print(advise(versions))


def _notes(rows: Sequence[tuple[str, ...]], headroom_bytes: int) -> Iterator[str]:
    from homespec.engine.forecast import DEPTH_TOKENS

    cells = [cell for row in rows for cell in row[2:]]
    if any(cell.endswith("*") for cell in cells):
        yield f"* has no room: there are {format_bytes(headroom_bytes)} of headroom."
    if any(cell[-1].isdigit() for row in rows for cell in row[4:]):
        yield (
            "Speeds are tokens/s: of reading the prompt, and of writing behind "
            f"{DEPTH_TOKENS} tokens once it has been read; what a draft model takes to read it counts."
        )
    if any(cell.startswith("~") for cell in cells):
        yield "~ about: plain by size alone, with drafts by costs and usual acceptance."


def _lack(version: Version) -> str:
    if not version.is_present:
        return "could be made"
    return "was not measured here with its draft model" if version.is_measured else "was not measured here"


def _row(version: Version, kinds: Sequence[str]) -> tuple[str, ...]:
    name = version.name if version.is_present else f"{version.name} (to be made)"
    source = f", from {version.lossy_source}" if version.lossy_source else ""
    drafting_bytes, speeds = version.drafting_bytes, version.drafting_speeds
    return (
        f"{name}{source}",
        f"{version.bits_per_weight:.1f}",
        _memory(version.plain_bytes, fits=version.fits),
        _memory(drafting_bytes, fits=version.drafting_fits) if drafting_bytes else "-",
        _speed(version.prompt_speed, fits=version.fits, is_guess=False),
        _speed(version.plain_speed, fits=version.fits, is_guess=not version.is_measured),
        *(
            _speed(speeds.get(kind), fits=version.drafting_fits, is_guess=kind not in version.seen)
            for kind in kinds
        ),
    )


def _memory(num_bytes: int, *, fits: bool) -> str:
    return f"{format_bytes(num_bytes)}{'' if fits else '*'}"


def _speed(tokens_per_second: float | None, *, fits: bool, is_guess: bool) -> str:
    if tokens_per_second is None:
        return "?" if fits else "-"
    return f"{'~' if is_guess else ''}{tokens_per_second:.1f}"
