"""Enters what homespec made on this machine into the user's catalogue, and takes it out again."""

from __future__ import annotations

import json
from pathlib import Path

from homespec.catalog.entries import MadeSource, ModelEntry, read_pairs, user_directory
from homespec.runtime.atomic import write_atomically

_HEAD = "# Written by homespec: a model that was made on this machine.\n"


def register(entry: ModelEntry, *, drafts_for: str | None = None) -> Path:
    """Enters a model; one of the same name that was made earlier is replaced.

    Args:
        entry: with a `MadeSource` as its only source.
        drafts_for: name of a target whose drafter it is to be from now on; if it goes, the one before it is
            again.

    Returns:
        The file that was written.

    Raises:
        OSError: it could not be.
    """
    source = entry.made_from
    assert source is not None
    tables = [("model", _fields(entry)), ("model.sources", {"kind": "made", **_source_fields(source)})]
    if drafts_for is not None:
        tables.append(("pair", {"target": drafts_for, "draft": entry.name, "rank": _next_rank()}))
    path = entry_path(entry.name)
    write_atomically(path, _HEAD + "".join(_table(name, fields) for name, fields in tables))
    return path


def _next_rank() -> int:
    """Above that of every pair so far."""
    paths = user_directory().glob("*.toml")
    return 1 + max((pair.rank for path in paths for pair in read_pairs(path)), default=0)


def unregister(name: str) -> bool:
    """Takes a model that was made here out of the catalogue; whether it was in it."""
    path = entry_path(name)
    was_in_it = is_ours(path)
    if was_in_it:
        path.unlink()
    return was_in_it


def is_ours(path: Path) -> bool:
    """Whether a file of the catalogue was written by `register`, and may be replaced."""
    return path.is_file() and path.read_text(encoding="utf-8", errors="replace").startswith(_HEAD)


def entry_path(name: str) -> Path:
    """The file that holds the entry of a model that was made here."""
    return user_directory() / f"{name}.toml"


def _fields(entry: ModelEntry) -> dict[str, str | int]:
    names: tuple[str, ...] = (
        *("name", "family", "role", "pair", "architecture", "quantization", "context_tokens", "size_bytes"),
        *("sha256", "licence", "summary"),
    )
    values = {name: getattr(entry, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _source_fields(source: MadeSource) -> dict[str, str | int]:
    return {"model": source.model, "sha256": source.sha256, "recipe": source.recipe, "tool": source.tool}


def _table(name: str, fields: dict[str, str | int]) -> str:
    # A JSON string is a TOML basic string once DEL is escaped as well.
    lines = [
        f"{key} = {json.dumps(value).replace(chr(127), chr(92) + 'u007f')}" for key, value in fields.items()
    ]
    return "\n".join(["", f"[[{name}]]", *lines, ""])
