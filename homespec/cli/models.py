"""`homespec models`: list, pull, show, check, requantize and remove models."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from homespec.catalog.entries import (
    FileSource,
    HubSource,
    MadeSource,
    ModelEntry,
    PypiSource,
    Source,
    load_catalog,
)
from homespec.catalog.partial import holds, partial_directory
from homespec.catalog.registry import entry_path, is_ours
from homespec.catalog.store import (
    ResolvedModel,
    find_entry,
    installed,
    is_path,
    model_path,
    models_directory,
    resolve,
)
from homespec.cli.removing import delete
from homespec.errors import ConfigError, HomespecError, ModelNotFoundError
from homespec.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from homespec.catalog.check import Progress

_NOTE_SECONDS = 10.0


@click.group()
def group() -> None:
    """List, get, check, requantize and remove models.

    Models lie in the XDG data directory, or where HOMESPEC_MODELS points.
    """


command = group


@group.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the table.")
def list_models(as_json: bool) -> None:
    """List the catalogue and the models on this machine."""
    catalog = load_catalog()
    on_disk = {model.name: model for model in installed(catalog)}
    names = sorted({*catalog, *on_disk})
    if as_json:
        facts = [_facts(name, catalog.get(name), on_disk.get(name)) for name in names]
        _print_json({"directory": str(models_directory()), "models": facts})
        return
    header = ("NAME", "ROLE", "SIZE", "QUANT", "LICENCE", "INSTALLED")
    rows = [_row(name, catalog.get(name), on_disk.get(name)) for name in names]
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        click.echo(click.style(line, bold=True) if row is header else line)


@group.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def pull(names: tuple[str, ...]) -> None:
    """Download models, or what is missing of them; print where they are.

    A download that was interrupted goes on where it ended.
    """
    from homespec.catalog.download import pull as pull_model

    catalog = load_catalog()
    # All names are looked up first: a typing error in the last should not show after an hour.
    entries = [find_entry(_not_a_path(name), catalog) for name in names]
    for entry in entries:
        try:
            with _shown_progress(entry.name) as progress:
                path = pull_model(entry, models_directory(), progress)
        except KeyboardInterrupt:
            _note(f"Stopped. `homespec models pull {entry.name}` goes on with what has arrived.")
            raise
        click.echo(path)
        if entry.pair and not model_path(entry.pair).exists() and entry.pair not in names:
            _note(f"Its draft model makes it faster: homespec models pull {entry.pair}")


@group.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def show(name: str, as_json: bool) -> None:
    """Show what is known about a model: NAME of the catalogue, or the path to a GGUF file."""
    try:
        model: ResolvedModel | None = resolve(name)
    except ModelNotFoundError:
        if name not in load_catalog():
            raise
        model = None
    entry = model.entry if model else find_entry(name)
    facts = _facts(model.name if model else name, entry, model)
    if model is not None and entry is None:
        facts |= _facts_of_file(model.path)
    if entry is not None:
        facts["sources"] = [_describe(source) for source in entry.sources]
    if as_json:
        _print_json(facts)
        return
    for key, value in facts.items():
        label, lines = _as_text(key, value)
        for number, line in enumerate(lines):
            click.echo(f"{'' if number else label:<14}{line}")


@group.command()
@click.argument("models", nargs=-1, metavar="[NAME|PATH]...")
@click.pass_context
def check(context: click.Context, models: tuple[str, ...]) -> None:
    """Check that model files are whole and genuine; all installed ones when none is named.

    Exits with 1 if one of them is not.
    """
    from homespec.catalog.check import check_file

    names = models or tuple(model.name for model in installed())
    if not names:
        _note(f"There are no models in {models_directory()}.")
    num_bad = 0
    for name in names:
        try:
            model = resolve(name)
            with _shown_progress(model.name) as progress:
                check_file(model.path, model.entry, progress=progress)
        except HomespecError as error:
            num_bad += 1
            click.echo(f"{name}: {click.style('bad', fg='red')}: {error.message}")
            if error.hint:
                _note(f"Hint: {error.hint}")
        else:
            size = format_bytes(model.path.stat().st_size)
            proof = "sha256 as in the catalogue" if model.entry else "a whole GGUF file; not in the catalogue"
            click.echo(f"{name}: {click.style('ok', fg='green')} ({size}, {proof})")
    context.exit(1 if num_bad else 0)


@group.command()
@click.argument("model")
@click.argument("type_name", metavar="TYPE")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Where to write it.")
def quantize(model: str, type_name: str, output: Path | None) -> None:
    """Make a version of MODEL in another number format, such as Q8_0, Q4_0 or F16; print its name.

    It lies in the models directory, or where --output says, and is found by its name like any other. The same
    source and type give the same file.
    """
    from homespec.cli.progress import shown_share
    from homespec.engine.making import make_quantized

    with shown_share(f"quantizing to {type_name.upper()}") as progress:
        made = make_quantized(model, type_name, output, progress)
    click.echo(made.entry.name)
    _note(f"{made.path}: {format_bytes(made.entry.size_bytes)}")
    if made.warning:
        _note(made.warning)


@group.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def rm(names: tuple[str, ...], yes: bool) -> None:
    """Delete models from the models directory, unfinished downloads included.

    A model that was made here leaves the catalogue as well.
    """
    directory = models_directory()
    for name in names:
        if not (holds(_not_a_path(name), directory) or is_ours(entry_path(name))):
            raise ModelNotFoundError(f"There is no model {name} in {directory}.", hint="homespec models list")
    for name in names:
        if yes or click.confirm(f"Delete {name} from {directory}?", err=True):
            delete(name)


def _not_a_path(name: str) -> str:
    if is_path(name):
        raise ConfigError(
            f"{name!r} is a path; this command takes the names of models only.", hint="homespec models list"
        )
    return name


def _row(name: str, entry: ModelEntry | None, model: ResolvedModel | None) -> tuple[str, ...]:
    size_bytes = model.path.stat().st_size if model else 0
    if model is None:
        # An interrupted pull leaves its partial directory behind, and goes on from there.
        state = "partly" if partial_directory(name, models_directory()).exists() else "no"
    else:
        state = "yes" if entry is None or size_bytes == entry.size_bytes else "damaged"
    if entry is None:
        return name, "-", format_bytes(size_bytes), "-", "-", state
    return name, entry.role, format_bytes(entry.size_bytes), entry.quantization, entry.licence, state


def _facts(name: str, entry: ModelEntry | None, model: ResolvedModel | None) -> dict[str, object]:
    """What `--json` prints about a model; keys without a value are left out, `path` where not installed."""
    facts: dict[str, object] = {"name": name, "installed": model is not None}
    if model is not None:
        facts |= {"path": str(model.path), "size_bytes": model.path.stat().st_size}
    if entry is not None:
        fields = dataclasses.asdict(dataclasses.replace(entry, sources=()))
        facts |= {key: value for key, value in fields.items() if key != "sources" and value not in (None, ())}
    return facts


def _as_text(key: str, value: object) -> tuple[str, list[str]]:
    """A fact for people: its label and its lines."""
    match value:
        case bool():
            return key, ["yes" if value else "no"]
        case int() if key.endswith("_bytes"):
            return key.removesuffix("_bytes"), [f"{format_bytes(value)} ({value:,} bytes)"]
        case int():
            return key.removesuffix("_tokens"), [f"{value:,} tokens"]
        case list() | tuple():
            return key, list(value)
    return key, [str(value)]


def _facts_of_file(path: Path) -> dict[str, object]:
    from homespec.catalog.gguf_header import read_header

    header = read_header(path)
    context_tokens = header.integer(f"{header.architecture}.context_length")
    facts = {"title": header.text("general.name"), "architecture": header.architecture}
    return {key: value for key, value in facts.items() if value} | (
        {"context_tokens": context_tokens} if context_tokens else {}
    )


def _describe(source: Source) -> str:
    match source:
        case PypiSource(parts=parts):
            first = f"{parts[0].package}=={parts[0].version}"
            return f"pypi {first}" + (f" and {len(parts) - 1} more packages" if len(parts) > 1 else "")
        case HubSource(repo=repo, file=file, revision=revision):
            return f"hf {repo}/{file} at {revision}"
        case FileSource(path=path):
            return f"file {path}"
        case MadeSource():
            return f"{source.recipe}, from {source.model} (sha256 {source.sha256[:12]}...), by {source.tool}"


def _print_json(value: dict[str, object]) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _note(text: str) -> None:
    click.echo(text, err=True)


@contextlib.contextmanager
def _shown_progress(name: str) -> Iterator[Progress]:
    """A bar on a terminal; elsewhere a line now and then, and none for what is done at once."""
    if not sys.stderr.isatty():
        yield _NotedProgress(name).update
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: list[TaskID] = []

        def update(done_bytes: int, total_bytes: int) -> None:
            # Begun with what is already there, so that a resumed download does not look infinitely fast.
            if not tasks:
                tasks.append(bars.add_task(name, completed=done_bytes, total=total_bytes))
            bars.update(tasks[0], completed=done_bytes, total=total_bytes)

        yield update


class _NotedProgress:
    """Progress as lines on stderr, for logs and pipes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._began = self._noted = time.monotonic()

    def update(self, done_bytes: int, total_bytes: int) -> None:
        now = time.monotonic()
        if now - self._noted >= _NOTE_SECONDS:
            self._noted = now
            _note(
                f"{self._name}: {format_bytes(done_bytes)} of {format_bytes(total_bytes)} "
                f"after {format_seconds(now - self._began)}"
            )
