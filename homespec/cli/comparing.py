"""What `homespec plan --compare` shows."""

from __future__ import annotations

import dataclasses
import json
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
    from homespec.engine.comparing import advise, compare

    comparison = compare(settings, others)
    versions = comparison.versions
    if as_json:
        click.echo(json.dumps({**dataclasses.asdict(comparison), "advice": advise(versions)}))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("version", overflow="fold")
    for title in ("bits per\nweight", "memory\nplain", "with\ndrafts", "tokens/s\nplain", "with\ndrafts"):
        table.add_column(title, justify="right", no_wrap=True)
    for version in versions:
        table.add_row(*_row(version))
    Console(highlight=False).print(table)
    if any("*" in cell for version in versions for cell in _row(version)[2:4]):
        click.echo(f"* has no room: there are {format_bytes(comparison.headroom_bytes)} of headroom.")
    if any(version.plain_speed is not None and not version.is_measured for version in versions):
        click.echo("~ about, by size alone.")
    for version in versions:
        if version.is_present and version.draft != settings.draft:
            click.echo(f"{version.name} drafts with --draft {version.draft}.")
        if version.command is not None:
            click.echo(f"{version.name} {_lack(version)}: {version.command}")
    click.echo(advise(versions))


def _lack(version: Version) -> str:
    if not version.is_present:
        return "could be made"
    return "was not measured here with its draft model" if version.is_measured else "was not measured here"


def _row(version: Version) -> tuple[str, ...]:
    name = version.name if version.is_present else f"{version.name} (to be made)"
    source = f", from {version.lossy_source}" if version.lossy_source else ""
    drafting_bytes = version.drafting_bytes
    return (
        f"{name}{source}",
        f"{version.bits_per_weight:.1f}",
        _memory(version.plain_bytes, fits=version.fits),
        _memory(drafting_bytes, fits=version.drafting_fits) if drafting_bytes else "-",
        _speed(version.plain_speed, version.fits, "" if version.is_measured else "~"),
        _speed(version.drafting_speed, version.drafting_fits, ""),
    )


def _memory(num_bytes: int, *, fits: bool) -> str:
    return f"{format_bytes(num_bytes)}{'' if fits else '*'}"


def _speed(tokens_per_second: float | None, fits: bool, mark: str) -> str:
    if tokens_per_second is None:
        return "?" if fits else "-"
    return f"{mark}{tokens_per_second:.1f}"
