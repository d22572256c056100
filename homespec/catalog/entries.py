"""The catalogue: model entries and where their files come from, read from TOML.

The entries that ship with homespec lie in `models/`; a user's own in `$XDG_CONFIG_HOME/homespec/models/`, and
replace shipped ones of the same name. `models/qwen2.5-coder.toml` shows the form. Beside `[[model]]` tables a
file may have `[[pair]]` tables (`Pair`). What homespec makes on this machine is entered so; see `registry`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NoReturn, TypeVar, cast, get_args
from urllib.parse import unquote, urlsplit

import platformdirs

from homespec.errors import CatalogEntryError

ModelRole = Literal["target", "draft", "test"]

# A name becomes a file name, and package names become arguments of pip: neither may be anything else.
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_PACKAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[0-9][0-9A-Za-z.!+_-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")

_Value = TypeVar("_Value", str, int, list[object])


@dataclass(frozen=True, slots=True)
class PackagePart:
    """A member of a wheel that holds a part of the model, or all of it."""

    package: str
    version: str
    member: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PypiSource:
    """Packages of a Python package index whose parts are joined in order."""

    parts: tuple[PackagePart, ...]

    @property
    def label(self) -> str:
        """How messages call it."""
        return "the package index"


@dataclass(frozen=True, slots=True)
class HubSource:
    """A file in a Hugging Face repository."""

    repo: str
    file: str
    revision: str = "main"

    @property
    def label(self) -> str:
        """How messages call it."""
        return "Hugging Face"


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file that this machine can read; a relative path is relative to the entry's TOML file."""

    path: Path

    @property
    def label(self) -> str:
        """How messages call it."""
        return str(self.path)


@dataclass(frozen=True, slots=True)
class MadeSource:
    """Another model, from which homespec made this one on this machine.

    Attributes:
        model: its name in the catalogue, or the path of its file.
        sha256: of its file.
        recipe: what was done, for people.
        tool: who did it, with versions.
    """

    model: str
    sha256: str
    recipe: str
    tool: str

    @property
    def label(self) -> str:
        """How messages call it."""
        return self.model


Source = PypiSource | HubSource | FileSource | MadeSource


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model of the catalogue.

    Attributes:
        name: what the user types; the file is `NAME.gguf`.
        family: models of one family share tokens.
        role: `target` answers, `draft` helps a target, `test` is for homespec's own tests.
        architecture: `general.architecture` of the file.
        quantization: as llama.cpp calls it.
        context_tokens: what the model was trained for.
        size_bytes, sha256: of the file, whatever source it comes from.
        licence: SPDX identifier, or the licence's usual name.
        summary: half a sentence.
        sources: tried in order.
        pair: the draft model that helps this target, or None. A model that was made from another one has that
            one's, if it names none.
        preferred_pairs: those of `[[pair]]` tables, the best first.
    """

    name: str
    family: str
    role: ModelRole
    architecture: str
    quantization: str
    context_tokens: int
    size_bytes: int
    sha256: str
    licence: str
    summary: str
    sources: tuple[Source, ...]
    pair: str | None = None
    preferred_pairs: tuple[str, ...] = ()

    @property
    def made_from(self) -> MadeSource | None:
        """What it was made from on this machine; None for a model that was published."""
        return next((source for source in self.sources if isinstance(source, MadeSource)), None)


@dataclass(frozen=True, slots=True)
class Pair:
    """A drafter that is preferred to the pair of a target's entry.

    Attributes:
        target, draft: their names.
        rank: of several drafters of a target the one of the highest rank is taken, if it is installed; of
            equals the one that stands last.
    """

    target: str
    draft: str
    rank: int = 0


def user_directory() -> Path:
    """Where the user's own entries lie."""
    return platformdirs.user_config_path("homespec") / "models"


def load_catalog(own_directory: Path | None = None) -> Mapping[str, ModelEntry]:
    """The shipped entries and the user's own, by name.

    Args:
        own_directory: where the user's own entries lie; by default `user_directory()`.

    Raises:
        CatalogEntryError: an entry is malformed; names the file and the key.
    """
    origins: dict[str, Path] = {}
    entries: dict[str, ModelEntry] = {}
    pairs: list[Pair] = []
    for directory in (shipped_directory(), own_directory or user_directory()):
        for path in sorted(directory.glob("*.toml")):
            found, found_pairs = _read_file(path)
            pairs += found_pairs
            for entry in found:
                if origins.get(entry.name, path).parent == directory and entry.name in entries:
                    raise CatalogEntryError(
                        f"{origins[entry.name]} and {path} both describe {entry.name}.",
                        hint=f"Rename one of the two in {path.name}.",
                    )
                entries[entry.name], origins[entry.name] = entry, path
    for entry in entries.values():
        if entry.pair is not None and entry.pair not in entries:
            _Table(origins[entry.name], entry.name, {}).fail(
                "pair", f"names {entry.pair}, which no entry describes"
            )
    preferred: dict[str, tuple[str, ...]] = {}
    for pair in sorted(pairs, key=lambda pair: pair.rank):
        if pair.draft in entries:  # A table may outlive the drafter that it names.
            preferred[pair.target] = (pair.draft, *preferred.get(pair.target, ()))
    paired = {name: _with_pairs(entry, entries, preferred) for name, entry in sorted(entries.items())}
    return MappingProxyType(paired)


def _with_pairs(
    entry: ModelEntry, entries: Mapping[str, ModelEntry], preferred: Mapping[str, tuple[str, ...]]
) -> ModelEntry:
    """The entry with the drafters that stand in `[[pair]]` tables, or with what it was made from."""
    pair, better = entry.pair, preferred.get(entry.name, ())
    if entry.role == "target" and entry.made_from is not None:
        source = entries.get(entry.made_from.model)
        pair = pair or (source.pair if source else None)
        better += preferred.get(entry.made_from.model, ())
    return replace(entry, pair=pair, preferred_pairs=better)


def shipped_directory() -> Path:
    """Where homespec's own entries lie: in the package once installed, beside it in a source tree."""
    package = Path(__file__).parent.parent
    installed = package / "models"
    return installed if installed.is_dir() else package.parent / "models"


def read_entries(path: Path) -> tuple[ModelEntry, ...]:
    """The entries of one TOML file.

    Raises:
        CatalogEntryError: the file is not TOML, or an entry is malformed.
    """
    return _read_file(path)[0]


def read_pairs(path: Path) -> tuple[Pair, ...]:
    """The `[[pair]]` tables of one TOML file; raises as `read_entries` does."""
    return _read_file(path)[1]


def _read_file(path: Path) -> tuple[tuple[ModelEntry, ...], tuple[Pair, ...]]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CatalogEntryError(
            f"{path} is not valid TOML: {error}.", hint=f"Correct {path.name}."
        ) from error
    except OSError as error:
        raise CatalogEntryError(
            f"{path} cannot be read: {error.strerror}.", hint="Check the file's permissions."
        ) from error
    top = _Table(path, "", document)
    models = top.tables("model") if "model" in top or "pair" not in top else []
    pairs = top.tables("pair") if "pair" in top else []
    top.finish()
    return tuple(map(_read_entry, models)), tuple(map(_read_pair, pairs))


def _read_pair(table: _Table) -> Pair:
    rank = table.positive("rank") if "rank" in table else 0
    pair = Pair(table.text("target", _NAME), table.text("draft", _NAME), rank)
    table.finish()
    return pair


def _read_entry(table: _Table) -> ModelEntry:
    table.where = name = table.text("name", _NAME)
    role = table.text("role")
    if role not in get_args(ModelRole):
        table.fail("role", f"must be one of {', '.join(get_args(ModelRole))}, but is {role!r}")
    entry = ModelEntry(
        name=name,
        family=table.text("family"),
        role=cast(ModelRole, role),
        architecture=table.text("architecture"),
        quantization=table.text("quantization"),
        context_tokens=table.positive("context_tokens"),
        size_bytes=table.positive("size_bytes"),
        sha256=table.text("sha256", _SHA256),
        licence=table.text("licence"),
        summary=table.text("summary"),
        sources=tuple(_read_source(source) for source in table.tables("sources")),
        pair=table.text("pair", _NAME) if "pair" in table else None,
    )
    table.finish()
    for source in entry.sources:
        if isinstance(source, PypiSource):
            joined_bytes = sum(part.size_bytes for part in source.parts)
            if joined_bytes != entry.size_bytes:
                table.fail(
                    "size_bytes", f"is {entry.size_bytes:,}, but the parts have {joined_bytes:,} together"
                )
    return entry


def _read_source(table: _Table) -> Source:
    source: Source
    match table.text("kind"):
        case "pypi":
            source = PypiSource(tuple(_read_part(part) for part in table.tables("parts")))
        case "hf":
            revision = table.text("revision") if "revision" in table else "main"
            source = HubSource(table.text("repo"), table.text("file"), revision)
        case "file":
            source = FileSource(_local_path(table, table.text("path")))
        case "made":
            source = MadeSource(
                table.text("model"), table.text("sha256", _SHA256), table.text("recipe"), table.text("tool")
            )
        case kind:
            table.fail("kind", f"must be pypi, hf, file or made, but is {kind!r}")
    table.finish()
    return source


def _read_part(table: _Table) -> PackagePart:
    part = PackagePart(
        package=table.text("package", _PACKAGE),
        version=table.text("version", _VERSION),
        member=table.text("member"),
        size_bytes=table.positive("size_bytes"),
        sha256=table.text("sha256", _SHA256),
    )
    table.finish()
    return part


def _local_path(table: _Table, text: str) -> Path:
    if "://" in text:
        url = urlsplit(text)
        if url.scheme != "file" or url.netloc not in ("", "localhost"):
            table.fail("path", f"must be a path or a file:// URL of this machine, but is {text!r}")
        text = unquote(url.path)
    return table.path.parent / Path(text).expanduser()


class _Table:
    """A TOML table whose keys are taken one by one, so that what is left over is known to be a mistake."""

    def __init__(self, path: Path, where: str, values: dict[str, object]) -> None:
        self.path = path
        self.where = where
        self._left = dict(values)

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def text(self, key: str, pattern: re.Pattern[str] | None = None) -> str:
        value = self._take(key, str, "a text")
        if not value or (pattern is not None and not pattern.fullmatch(value)):
            self.fail(key, f"has the unusable value {value!r}")
        return value

    def positive(self, key: str) -> int:
        value = self._take(key, int, "a whole number")
        if value <= 0 or isinstance(value, bool):
            self.fail(key, f"must be a whole number above zero, but is {value!r}")
        return value

    def tables(self, key: str) -> list[_Table]:
        values = self._take(key, list, "a list of tables")
        tables = [
            _Table(self.path, f"{self.where} {key} {number}".strip(), value)
            for number, value in enumerate(values, 1)
            if isinstance(value, dict)
        ]
        if not tables or len(tables) != len(values):
            self.fail(key, "must be a list of tables, and not empty")
        return tables

    def finish(self) -> None:
        """Complains about keys that nobody asked for."""
        for key in self._left:
            self.fail(key, "is not a known key", hint=f"Remove {key!r}, or correct its spelling.")

    def fail(self, key: str, problem: str, *, hint: str = "") -> NoReturn:
        where = f" ({self.where})" if self.where else ""
        raise CatalogEntryError(
            f"{self.path}{where}: {key} {problem}.", hint=hint or f"Correct {self.path.name}."
        )

    def _take(self, key: str, kind: type[_Value], wanted: str) -> _Value:
        if key not in self._left:
            self.fail(key, "is missing", hint=f"Add {key!r} to the entry.")
        value = self._left.pop(key)
        if not isinstance(value, kind):
            self.fail(key, f"must be {wanted}, but is {value!r}")
        return value
