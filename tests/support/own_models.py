"""A models directory and a catalogue of a test's own."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from homespec.catalog.entries import ModelRole
from tests.support.fake_index import as_toml, entry_for


def add_model(
    directory: Path, config: Path, name: str, file: Path, *, role: ModelRole, pair: str | None = None
) -> None:
    """Puts a model where HOMESPEC_MODELS points, and an entry for it where XDG_CONFIG_HOME does."""
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, directory / f"{name}.gguf")
    entry = replace(entry_for(file.read_bytes(), name=name), role=role)
    toml = as_toml(entry, [f'kind = "file"\npath = {json.dumps(str(file))}'])
    if pair is not None:
        toml = toml.replace("[[model]]\n", f"[[model]]\npair = {json.dumps(pair)}\n")
    entries = config / "homespec" / "models"
    entries.mkdir(parents=True, exist_ok=True)
    (entries / f"{name}.toml").write_text(toml, encoding="utf-8")


def add_tiny_pair(root: Path, monkeypatch: pytest.MonkeyPatch, target: Path, draft: Path) -> Path:
    """A models directory and a catalogue below `root` with `tiny` and its pair `tiny-draft`."""
    directory, config = root / "models", root / "config"
    monkeypatch.setenv("HOMESPEC_MODELS", str(directory))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    add_model(directory, config, "tiny", target, role="target", pair="tiny-draft")
    add_model(directory, config, "tiny-draft", draft, role="draft")
    return directory
