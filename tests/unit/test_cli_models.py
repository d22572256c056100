"""`homespec models` as its user meets it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from homespec.catalog.entries import load_catalog
from homespec.cli.models import group
from homespec.errors import CatalogError, ConfigError, DownloadError, ModelNotFoundError
from tests.support import fake_index

NAME = "smollm2-135m-instruct"


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "models"
    directory.mkdir()
    monkeypatch.setenv("HOMESPEC_MODELS", str(directory))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return directory


@pytest.fixture
def tiny(tmp_path: Path, tiny_target: Path) -> bytes:
    """Makes `tiny` a model of the catalogue; gives its content."""
    content = tiny_target.read_bytes()
    directory = tmp_path / "config" / "homespec" / "models"
    directory.mkdir(parents=True)
    source = f'kind = "file"\npath = {json.dumps(str(tmp_path / "original.gguf"))}'
    toml = fake_index.as_toml(fake_index.entry_for(content), [source])
    (directory / "own.toml").write_text(toml, encoding="utf-8")
    (tmp_path / "original.gguf").write_bytes(content)
    return content


def run(*arguments: str, answer: str | None = None) -> Result:
    result = CliRunner().invoke(group, arguments, input=answer)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_list_fits_a_terminal(models: Path, tiny_target: Path) -> None:
    shutil.copy(tiny_target, models / "mine.gguf")
    (models / f"{NAME}.gguf").write_bytes(b"GGUF")
    (models / ".partial" / "gemma3-270m").mkdir(parents=True)
    result = run("list")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["NAME", "ROLE", "SIZE", "QUANT", "LICENCE", "INSTALLED"]
    assert all(len(line) <= 80 for line in lines)
    assert "\x1b" not in result.stdout
    state = {line.split()[0]: line.split()[-1] for line in lines[1:]}
    assert state["mine"] == "yes"
    assert state[NAME] == "damaged"
    assert state["gemma3-270m"] == "partly"
    assert state["qwen2.5-coder-1.5b-instruct"] == "no"


def test_list_as_json(models: Path, tiny_target: Path) -> None:
    shutil.copy(tiny_target, models / "mine.gguf")
    answer = json.loads(run("list", "--json").stdout)
    assert answer["directory"] == str(models)
    facts = {model["name"]: model for model in answer["models"]}
    assert set(facts) == {*load_catalog(), "mine"}
    assert facts["mine"] == {
        "name": "mine",
        "installed": True,
        "path": str(models / "mine.gguf"),
        "size_bytes": tiny_target.stat().st_size,
    }
    assert facts[NAME]["installed"] is False
    assert facts[NAME]["size_bytes"] == 98_362_432
    assert "path" not in facts[NAME]


def test_pull_prints_the_path(models: Path, tiny: bytes) -> None:
    result = run("pull", "tiny")
    assert result.stdout == f"{models / 'tiny.gguf'}\n"
    assert (models / "tiny.gguf").read_bytes() == tiny
    assert result.stderr == ""


def test_pull_names_the_draft_model(tmp_path: Path, tiny: bytes) -> None:
    own = tmp_path / "config" / "homespec" / "models" / "own.toml"
    draft = own.read_text().replace('"tiny"', '"tiny-draft"', 1)
    own.write_text(own.read_text().replace('summary = "', 'pair = "tiny-draft"\nsummary = "') + draft)
    assert "homespec models pull tiny-draft" in run("pull", "tiny").stderr
    assert run("pull", "tiny", "tiny-draft").stderr == ""


def test_pull_looks_up_all_names_first(models: Path, tiny: bytes) -> None:
    with pytest.raises(ModelNotFoundError, match="tinny"):
        run("pull", "tiny", "tinny")
    with pytest.raises(ConfigError, match="is a path"):
        run("pull", "tiny", "./tiny.gguf")
    assert list(models.iterdir()) == []


def test_pull_fails_in_one_sentence(tmp_path: Path, tiny: bytes) -> None:
    (tmp_path / "original.gguf").unlink()
    with pytest.raises(DownloadError, match=r"^No source delivered tiny: .* cannot be read"):
        run("pull", "tiny")


def test_pull_notes_progress_now_and_then(
    tmp_path: Path, tiny: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("homespec.cli.models._NOTE_SECONDS", 0.0)
    assert run("pull", "tiny").stderr.startswith("tiny: 495 kB of 495 kB after 0.0")


def test_show(models: Path, tiny: bytes) -> None:
    lines = dict(line.split(None, 1) for line in run("show", "tiny").stdout.splitlines())
    assert lines["installed"] == "no"
    assert lines["size"] == f"495 kB ({len(tiny):,} bytes)"
    assert lines["context"] == "512 tokens"
    assert lines["sources"].startswith("file ")
    run("pull", "tiny")
    facts = json.loads(run("show", "tiny", "--json").stdout)
    assert facts["installed"] is True
    assert facts["path"] == str(models / "tiny.gguf")


def test_show_a_shipped_model_and_a_file(tiny_target: Path) -> None:
    shown = run("show", "qwen2.5-coder-1.5b-instruct").stdout
    assert "and 21 more packages" in shown
    assert "hf Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/" in shown
    facts = json.loads(run("show", str(tiny_target), "--json").stdout)
    assert facts["architecture"] == "llama"
    assert facts["context_tokens"] == 512
    with pytest.raises(ModelNotFoundError, match="There is no model 'tinny'"):
        run("show", "tinny")


def test_check(models: Path, tiny: bytes, tiny_target: Path) -> None:
    result = run("check")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "There are no models" in result.stderr
    run("pull", "tiny")
    result = run("check")
    assert (result.exit_code, result.stdout) == (0, "tiny: ok (495 kB, sha256 as in the catalogue)\n")
    assert "not in the catalogue" in run("check", str(tiny_target)).stdout

    (models / "tiny.gguf").write_bytes(tiny[:-1] + b"x")
    (models / "page.gguf").write_bytes(b"<html></html>")
    result = run("check")
    assert result.exit_code == 1
    page, changed = result.stdout.splitlines()
    assert page.startswith("page: bad: ")
    assert "is a web page" in page
    assert "right size but other content" in changed
    assert "Hint: homespec models pull tiny" in result.stderr
    assert run("check", "gemma3-270m").exit_code == 1


def test_rm(models: Path, tiny: bytes) -> None:
    run("pull", "tiny")
    result = run("rm", "tiny", answer="n\n")
    assert "Delete tiny from" in result.stderr
    assert (models / "tiny.gguf").exists()
    result = run("rm", "tiny", answer="y\n")
    assert result.stdout == ""
    assert "495 kB freed" in result.stderr
    assert not (models / "tiny.gguf").exists()
    with pytest.raises(ModelNotFoundError, match="There is no model tiny in"):
        run("rm", "tiny", "--yes")


@pytest.mark.parametrize("path", ["../outside", "outside.gguf", "{dir}/outside.gguf"])
def test_rm_never_deletes_a_path(tmp_path: Path, tiny_target: Path, path: str) -> None:
    outside = tmp_path / "outside.gguf"
    shutil.copy(tiny_target, outside)
    with pytest.raises(ConfigError, match="is a path"):
        run("rm", "--yes", path.format(dir=tmp_path))
    assert outside.exists()


def test_rm_of_a_link_leaves_what_it_points_to(tmp_path: Path, models: Path, tiny_target: Path) -> None:
    outside = tmp_path / "outside.gguf"
    shutil.copy(tiny_target, outside)
    (models / "linked.gguf").symlink_to(outside)
    run("rm", "--yes", "linked")
    assert outside.exists()
    assert not (models / "linked.gguf").is_symlink()


def test_a_bad_entry_of_the_user_is_named(tmp_path: Path, tiny: bytes) -> None:
    own = tmp_path / "config" / "homespec" / "models" / "own.toml"
    own.write_text(own.read_text() + "colour = 1\n")
    with pytest.raises(CatalogError, match=r"own\.toml .*colour is not a known key"):
        run("list")


def test_importing_the_command_is_light() -> None:
    program = "import sys, homespec.cli.models; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert not {"numpy", "llama_cpp", "rich", "huggingface_hub", "gguf"} & set(loaded.split())
