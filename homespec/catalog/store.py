"""The models directory: which models are on disk, and from a name or a path to a file."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from homespec.catalog.entries import ModelEntry, load_catalog
from homespec.errors import ModelFormatError, ModelNotFoundError

_MODELS_VARIABLE = "HOMESPEC_MODELS"


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model file that exists.

    Attributes:
        path: the GGUF file.
        name: what to call it: the catalogue's name, or the file's name without `.gguf`.
        entry: what the catalogue says about it, or None for a file of the user's own.
    """

    path: Path
    name: str
    entry: ModelEntry | None = None


def models_directory() -> Path:
    """Where pulled models lie: `HOMESPEC_MODELS`, or below the XDG data home."""
    directory = os.environ.get(_MODELS_VARIABLE)
    return Path(directory).expanduser() if directory else platformdirs.user_data_path("homespec") / "models"


def model_path(name: str, directory: Path | None = None) -> Path:
    """Where the model of this name lies once it is there."""
    return (directory or models_directory()) / f"{name}.gguf"


def is_path(name_or_path: str) -> bool:
    """Whether the text can only be a path: it has a separator or ends in `.gguf`."""
    return os.sep in name_or_path or name_or_path.startswith("~") or name_or_path.lower().endswith(".gguf")


def find_entry(name: str, catalog: Mapping[str, ModelEntry] | None = None) -> ModelEntry:
    """The catalogue's entry of this name.

    Raises:
        ModelNotFoundError: there is none; suggests near names.
    """
    catalog = load_catalog() if catalog is None else catalog
    if name in catalog:
        return catalog[name]
    raise _unknown(name, catalog, ())


def resolve(name_or_path: str) -> ResolvedModel:
    """Finds the file of a model, by its name or by a path to any GGUF file.

    The file is not opened; `homespec.catalog.check.check_file` tells whether it is whole.

    Raises:
        ModelNotFoundError: no such file, no such model, or a model that is not pulled yet.
        ModelFormatError: the path is a directory.
    """
    catalog = load_catalog()
    if not is_path(name_or_path):
        path = model_path(name_or_path)
        if path.is_file():
            return ResolvedModel(path, name_or_path, catalog.get(name_or_path))
        if name_or_path in catalog:
            raise ModelNotFoundError(
                f"The model {name_or_path} is not in {models_directory()}.",
                hint=f"homespec models pull {name_or_path}",
            )
    path = Path(name_or_path).expanduser()
    if path.is_file():
        in_store = path.resolve().parent == models_directory().resolve()
        return ResolvedModel(path, path.stem, catalog.get(path.stem) if in_store else None)
    if path.is_dir() and is_path(name_or_path):
        raise ModelFormatError(f"{path} is a directory, not a model file.", hint="Name the .gguf file in it.")
    if is_path(name_or_path):
        raise ModelNotFoundError(f"There is no file {path}.", hint="Check the path, or name a model.")
    raise _unknown(name_or_path, catalog, [model.name for model in installed(catalog)])


def draft_model(entry: ModelEntry | None) -> str | None:
    """What drafts for a target with `auto`: the first installed of the preferred ones and the pair."""
    names = (*entry.preferred_pairs, entry.pair) if entry else ()
    return next((name for name in names if name and model_path(name).is_file()), None)


def installed(catalog: Mapping[str, ModelEntry] | None = None) -> list[ResolvedModel]:
    """The models in the models directory, the user's own files included, by name."""
    catalog = load_catalog() if catalog is None else catalog
    paths = sorted(models_directory().glob("*.gguf"))
    return [ResolvedModel(path, path.stem, catalog.get(path.stem)) for path in paths if path.is_file()]


def _unknown(name: str, catalog: Mapping[str, ModelEntry], others: Sequence[str]) -> ModelNotFoundError:
    names = sorted({*catalog, *others})
    wanted = name.lower()
    near = [known for known in names if wanted in known]
    near = near or difflib.get_close_matches(wanted, names, n=2, cutoff=0.7)
    suggestion = f"Did you mean {' or '.join(near)}? " if near else ""
    return ModelNotFoundError(
        f"There is no model {name!r}.",
        hint=f"{suggestion}Name one of {', '.join(names)}, or the path to a GGUF file.",
    )
