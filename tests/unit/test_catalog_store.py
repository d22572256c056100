"""From a name or a path to a file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from homespec.catalog import store
from homespec.errors import ModelFormatError, ModelNotFoundError

NAME = "smollm2-135m-instruct"


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "models"
    directory.mkdir()
    monkeypatch.setenv("HOMESPEC_MODELS", str(directory))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return directory


def test_where_models_lie(tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.models_directory() == models
    monkeypatch.delenv("HOMESPEC_MODELS")
    assert store.models_directory() == tmp_path / "data" / "homespec" / "models"


def test_a_pulled_model_by_name(models: Path, tiny_target: Path) -> None:
    shutil.copy(tiny_target, models / f"{NAME}.gguf")
    model = store.resolve(NAME)
    assert (model.path, model.name) == (models / f"{NAME}.gguf", NAME)
    assert model.entry is not None
    assert model.entry.name == NAME
    assert store.resolve(str(models / f"{NAME}.gguf")) == model


def test_an_own_file_by_name_and_by_path(models: Path, tiny_target: Path) -> None:
    shutil.copy(tiny_target, models / "mine.gguf")
    assert store.resolve("mine") == store.ResolvedModel(models / "mine.gguf", "mine")
    assert store.resolve(str(tiny_target)) == store.ResolvedModel(tiny_target, "tiny-target")
    assert [model.name for model in store.installed()] == ["mine"]


def test_a_file_named_like_a_model_elsewhere_is_not_that_model(tmp_path: Path, tiny_target: Path) -> None:
    shutil.copy(tiny_target, tmp_path / f"{NAME}.gguf")
    assert store.resolve(str(tmp_path / f"{NAME}.gguf")).entry is None


def test_a_model_that_is_not_pulled(models: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=NAME) as caught:
        store.resolve(NAME)
    assert str(models) in caught.value.message
    assert caught.value.hint == f"homespec models pull {NAME}"


@pytest.mark.parametrize(
    ("typed", "suggested"),
    [("smolm2-135m-instruct", NAME), ("smollm2", NAME), ("Gemma3", "gemma3-270m"), ("zzzz", "")],
)
def test_an_unknown_name_suggests_near_ones_and_lists_all(typed: str, suggested: str) -> None:
    with pytest.raises(ModelNotFoundError, match=typed) as caught:
        store.resolve(typed)
    assert (f"Did you mean {suggested}?" in caught.value.hint) == bool(suggested)
    assert NAME in caught.value.hint
    with pytest.raises(ModelNotFoundError):
        store.find_entry(typed)


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"There is no file .*gone\.gguf"):
        store.resolve("gone.gguf")
    with pytest.raises(ModelFormatError, match="is a directory"):
        store.resolve(str(tmp_path))
