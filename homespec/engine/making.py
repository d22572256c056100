"""Makes model files from others, and enters them into the user's catalogue.

Imports neither llama.cpp nor NumPy.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
from dataclasses import dataclass
from pathlib import Path

from homespec import __version__
from homespec.catalog.check import check_file, hash_file
from homespec.catalog.entries import MadeSource, ModelEntry, ModelRole, load_catalog
from homespec.catalog.gguf_header import GgufHeader, read_header
from homespec.catalog.quantizations import (
    FULL_PRECISION,
    SOURCE_TYPE,
    check_quantizable,
    file_type,
    lossy_source,
    quantized_bytes,
)
from homespec.catalog.registry import entry_path, is_ours, register
from homespec.catalog.store import ResolvedModel, model_path, resolve
from homespec.errors import ConfigError
from homespec.runtime.quantize import FILE_TYPES, MAX_NOTE_BYTES, Form, Progress, check_file_type, quantize
from homespec.runtime.threads import choose_threads
from homespec.runtime.trim_layout import MADE_BY_VERSION, SOURCE_NAME, SOURCE_SHA256

_QUANTIZED = "homespec.quantized"
_UNUSABLE = re.compile(r"[^a-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Made:
    """A model that was made.

    Attributes:
        entry: in the catalogue.
        path: its file.
        warning: what its user should know, in one sentence; empty where there is nothing.
    """

    entry: ModelEntry
    path: Path
    warning: str


def make_quantized(
    model: str, type_name: str, output: Path | None, progress: Progress = lambda share: None
) -> Made:
    """Writes a model in another number format, by llama.cpp's mixture of that name, and registers it.

    Args:
        model: name or path of the source.
        type_name: a key of `FILE_TYPES`, in any case.
        output: where to; None for the models directory, under the source's name with the type behind it.
        progress: told how far it is.

    Raises:
        ConfigError: there is no such type, or the name is that of another model.
        HomespecError: see `quantize.quantize`.
    """
    type_name = check_file_type(type_name)
    source = resolve(model)
    header = check_file(source.path)
    name = made_name(output.stem if output else f"{_base_name(source.name)}-{type_name}")
    path = output or model_path(name)
    check_name(name, path, source)
    write_quantized(header, path, Form(type_name, num_threads=choose_threads().num_threads), progress)
    recipe = f"quantized to {type_name}"
    entry = enter(name, path, source, role=source.entry.role if source.entry else "target", recipe=recipe)
    return Made(entry, path, _fidelity_warning(header, type_name))


def write_quantized(
    header: GgufHeader, path: Path, form: Form, progress: Progress = lambda share: None
) -> None:
    """Writes a checked model in another number format, with its provenance in the metadata.

    Raises:
        ConfigError: the file would lose what makes it a drafter.
        HomespecError: see `quantize.quantize`.
    """
    check_quantizable(header)
    notes = {MADE_BY_VERSION: __version__, _QUANTIZED: form.file_type + (" pure" if form.pure else "")}
    if header.text(SOURCE_NAME) is None:
        notes |= {SOURCE_NAME: _short(header.path.stem), SOURCE_SHA256: hash_file(header.path)}
    notes[SOURCE_TYPE] = lossy_source(header) or file_type(header)
    needed_bytes = quantized_bytes(header, form.file_type, pure=form.pure)
    quantize(header.path, path, form, needed_bytes=needed_bytes, notes=notes, progress=progress)


def enter(
    name: str,
    path: Path,
    source: ResolvedModel,
    *,
    role: ModelRole,
    recipe: str,
    drafts_for: str | None = None,
) -> ModelEntry:
    """Registers a file that was made, so that it is found by its name.

    Args:
        name: that nobody else has; see `check_name`.
        path: the file; outside of the models directory it is linked from there.
        source: what it was made from.
        role: of the model.
        recipe: how it was made, for people.
        drafts_for: name of a target that it is to draft for.

    Raises:
        OSError: the catalogue or the link could not be written.
    """
    link = model_path(name)
    if path.resolve() != link.resolve():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(path.resolve())
    header = read_header(path)
    known = source.entry
    title = known.name if known else source.path.name
    entry = ModelEntry(
        name=name,
        family=known.family if known else made_name(source.name),
        role=role,
        architecture=header.architecture,
        quantization=file_type(header),
        context_tokens=header.integer(f"{header.architecture}.context_length") or 1,
        size_bytes=path.stat().st_size,
        sha256=hash_file(path),
        licence=known.licence if known else header.text("general.license") or "unknown",
        summary=f"{title}, {recipe}",
        sources=(_made_source(source, recipe),),
    )
    register(entry, drafts_for=drafts_for)
    return entry


def made_name(text: str) -> str:
    """A name that the catalogue takes."""
    return _UNUSABLE.sub("-", text.lower()).strip("-._") or "model"


def check_name(name: str, path: Path, source: ResolvedModel) -> None:
    """Refuses to write over a model that was not made here, or over the source.

    Raises:
        ConfigError: that would happen.
    """
    link = model_path(name)
    # The name's place in the models directory is replaced as well, wherever the file itself goes.
    if source.path.resolve() in (path.resolve(), link.resolve()):
        raise ConfigError(f"{path} is the source itself, or has its name.", hint="Pass another --output.")
    known = load_catalog().get(name)
    if known is not None and known.made_from is None:
        raise ConfigError(f"The name {name} is that of another model.", hint="Pass another --output.")
    strangers = [] if known else [place for place in (link, entry_path(name)) if os.path.lexists(place)]
    strangers = [place for place in strangers if place == link or not is_ours(place)]
    if path.exists() and path.resolve() != link.resolve():
        strangers.append(path)
    if strangers:
        raise ConfigError(f"There is a file {strangers[0]} already.", hint="Pass another --output.")


def _short(text: str) -> str:
    """As much of a text as the metadata can take, whatever its script."""
    return text.encode(errors="replace")[:MAX_NOTE_BYTES].decode(errors="ignore")


def _base_name(name: str) -> str:
    """The name without a quantization at its end, so that they do not pile up."""
    base, _, last = name.rpartition("-")
    return base if base and last.upper() in FILE_TYPES else name


def _made_source(source: ResolvedModel, recipe: str) -> MadeSource:
    sha256 = source.entry.sha256 if source.entry else hash_file(source.path)
    tool = f"homespec {__version__}, llama-cpp-python {importlib.metadata.version('llama-cpp-python')}"
    named = source.name if source.entry else str(source.path.resolve())
    return MadeSource(named, sha256, recipe, tool)


def _fidelity_warning(header: GgufHeader, type_name: str) -> str:
    lossy = lossy_source(header) or file_type(header)
    if lossy in FULL_PRECISION:
        return ""
    if quantized_bytes(header, type_name) < header.file_bytes:
        return f"Made from {lossy}, it has lost precision twice: one made from F16 would be more faithful."
    return (
        f"Made from {lossy}, it has no more fidelity than that, whatever its size: it may be faster with "
        "drafts, not better."
    )
