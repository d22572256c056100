"""Deleting models: what `models rm` and `draft rm` have in common."""

from __future__ import annotations

import click

from homespec.catalog.entries import load_catalog
from homespec.catalog.partial import holds, remove
from homespec.catalog.registry import unregister
from homespec.catalog.store import draft_model, model_path, models_directory
from homespec.units import format_bytes


def delete(name: str) -> None:
    """Deletes a model, and its entry if it was made here; says who drafts in its place."""
    directory = models_directory()
    targets = [
        target
        for target, entry in load_catalog().items()
        if name in (*entry.preferred_pairs, entry.pair) and model_path(target).is_file()
    ]
    if holds(name, directory):
        click.echo(f"Deleted {name}: {format_bytes(remove(name, directory))} freed.", err=True)
    else:
        click.echo(f"The file of {name} was gone already; it is no longer registered.", err=True)
    unregister(name)
    catalog = load_catalog()
    for target in targets:
        drafter = draft_model(catalog.get(target)) or "Only n-gram lookup"
        click.echo(f"{drafter} drafts for {target} now.", err=True)
