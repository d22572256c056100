"""What `homespec plan --compare` shows."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from homespec.engine.comparing import Version
    from homespec.engine.settings import EngineSettings


def show_versions(settings: EngineSettings, others: tuple[str, ...], *, as_json: bool) -> None:
    """Plans all versions of a target, and prints what they cost and yield.

    Raises:
        ModelError: one of them is missing or damaged.
    """
    from homespec.engine.comparing import advise, compare

    versions = compare(settings, others)
    if as_json:
        facts = [dataclasses.asdict(version) for version in versions]
        click.echo(json.dumps({"versions": facts, "advice": advise(versions)}))
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
    for version in versions:
        if not version.is_present:
            click.echo(
                f"{version.name} could be made: homespec models quantize {settings.target} {version.name}"
            )
        elif not version.is_measured:
            click.echo(f"{version.name} was not measured here: homespec calibrate {version.name}")
    if any(not version.is_measured for version in versions):
        click.echo("Speeds with a ~ follow from the size alone.")
    click.echo(advise(versions))


def _row(version: Version) -> tuple[str, ...]:
    from homespec.units import format_bytes

    def speed(value: float | None) -> str:
        return "?" if value is None else f"{'' if version.is_measured else '~'}{value:.1f}"

    name = version.name if version.is_present else f"{version.name} (to be made)"
    source = f", from {version.lossy_source}" if version.lossy_source else ""
    return (
        f"{name}{source}",
        f"{version.bits_per_weight:.1f}",
        format_bytes(version.plain_bytes) if version.fits else "no room",
        format_bytes(version.drafting_bytes) if version.drafting_bytes else "-",
        speed(version.plain_speed),
        speed(version.drafting_speed) if version.drafting_speed else "-",
    )
