"""Models that were made here, in the user's catalogue."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from homespec.catalog.check import hash_file
from homespec.catalog.entries import MadeSource, ModelEntry, load_catalog
from homespec.catalog.gguf_header import read_header
from homespec.catalog.quantizations import lossy_source
from homespec.catalog.registry import register, unregister
from homespec.catalog.store import draft_model, resolve
from homespec.cli.main import cli
from homespec.engine.making import make_quantized
from homespec.engine.preparing import prepare
from homespec.engine.settings import EngineSettings
from homespec.errors import ConfigError, DownloadError
from tests.support.own_models import add_tiny_pair

DIGEST = "ab" * 32
SOURCE = MadeSource("tiny", DIGEST, 'a "quoted" recipe\\ of\tthree', "homespec 0.1.0")
MADE = ModelEntry(
    name="tiny-q8_0",
    family="tiny",
    role="draft",
    architecture="llama",
    quantization="Q8_0",
    context_tokens=512,
    size_bytes=1,
    sha256=DIGEST,
    licence="MIT",
    summary="Ünicode \x7f and \n lines",
    sources=(SOURCE,),
)


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_target: Path, tiny_near_copy: Path) -> Path:
    return add_tiny_pair(tmp_path, monkeypatch, tiny_target, tiny_near_copy)


def test_an_entry_comes_back_as_it_was() -> None:
    register(MADE)
    assert load_catalog()[MADE.name] == MADE
    assert load_catalog()[MADE.name].made_from == SOURCE
    changed = replace(MADE, quantization="Q4_0")
    register(changed)
    assert load_catalog()[MADE.name] == changed
    assert unregister(MADE.name)
    assert MADE.name not in load_catalog()


def test_what_the_user_wrote_is_not_taken_out() -> None:
    assert not unregister("tiny")
    assert not unregister("unknown")
    assert "tiny" in load_catalog()


def test_a_registered_drafter_is_preferred_while_it_is_there(models: Path, tiny_near_copy: Path) -> None:
    def drafter() -> str:
        preparation = prepare(EngineSettings("tiny", memory_bytes=4 << 30))
        return preparation.draft.model.name if preparation.draft else ""

    assert drafter() == "tiny-draft"
    register(MADE, drafts_for="tiny")
    assert drafter() == "tiny-draft"  # its file is not there
    (models / f"{MADE.name}.gguf").write_bytes(tiny_near_copy.read_bytes())
    assert drafter() == MADE.name
    assert load_catalog()["tiny"].pair == "tiny-draft"
    unregister(MADE.name)
    assert drafter() == "tiny-draft"


def test_a_pair_of_an_unknown_target_harms_nobody() -> None:
    register(MADE, drafts_for="elsewhere")
    assert draft_model(load_catalog()["tiny"]) == "tiny-draft"


def test_a_version_is_found_by_name_and_has_its_source_s_drafters(models: Path, tiny_near_copy: Path) -> None:
    made = make_quantized("tiny", "q8_0", None)
    assert (made.entry.name, made.path, made.warning) == ("tiny-q8_0", models / "tiny-q8_0.gguf", "")
    found = resolve("tiny-q8_0")
    assert found.entry is not None
    assert found.entry.made_from is not None
    assert found.entry.made_from.sha256 == hash_file(models / "tiny.gguf")
    assert (found.entry.made_from.model, found.entry.made_from.recipe) == ("tiny", "quantized to Q8_0")
    assert draft_model(found.entry) == "tiny-draft"
    better = replace(MADE, name="better")
    register(better, drafts_for="tiny")
    (models / "better.gguf").write_bytes(tiny_near_copy.read_bytes())
    assert draft_model(resolve("tiny-q8_0").entry) == "better"


def test_fidelity_is_told_honestly_and_kept_in_the_file(models: Path) -> None:
    make_quantized("tiny", "q4_0", None)
    larger = make_quantized("tiny-q4_0", "f16", None)
    assert larger.entry.name == "tiny-f16"
    assert "no more fidelity" in larger.warning
    assert lossy_source(read_header(larger.path)) == "Q4_0"
    back = make_quantized("tiny-f16", "q8_0", None)
    assert "Q4_0" in back.warning
    assert lossy_source(read_header(back.path)) == "Q4_0"


def test_other_models_are_not_written_over(models: Path, tmp_path: Path) -> None:
    before = (models / "tiny-draft.gguf").read_bytes()
    for output in (models / "tiny-draft.gguf", models / "tiny.gguf"):
        with pytest.raises(ConfigError):
            make_quantized("tiny", "q8_0", output)
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"precious")
    with pytest.raises(ConfigError, match="already"):
        make_quantized("tiny", "q8_0", mine)
    assert (models / "tiny-draft.gguf").read_bytes() == before
    assert mine.read_bytes() == b"precious"


def test_the_source_is_not_lost_to_its_own_name(models: Path, tmp_path: Path) -> None:
    """A file elsewhere takes the name's place in the models directory, where the source may lie."""
    made = make_quantized("tiny", "q8_0", None)
    before = made.path.read_bytes()
    with pytest.raises(ConfigError, match="source itself"):
        make_quantized("tiny-q8_0", "q4_0", tmp_path / "disk" / "tiny-q8_0.gguf")
    assert made.path.read_bytes() == before
    # From another source it may: it was made here, and can be made again.
    make_quantized("tiny-draft", "q4_0", tmp_path / "disk" / "tiny-q8_0.gguf")
    make_quantized("tiny-draft", "q8_0", tmp_path / "disk" / "tiny-q8_0.gguf")
    assert load_catalog()["tiny-q8_0"].quantization == "Q8_0"


def test_a_file_elsewhere_is_kept_whatever_was_made_under_its_name(models: Path, tmp_path: Path) -> None:
    make_quantized("tiny", "q8_0", None)
    mine = tmp_path / "tiny-q8_0.gguf"
    mine.write_bytes(b"precious")
    with pytest.raises(ConfigError, match="already"):
        make_quantized("tiny", "q8_0", mine)
    assert mine.read_bytes() == b"precious"


def test_entries_that_the_user_wrote_are_kept(tmp_path: Path) -> None:
    own = tmp_path / "config" / "homespec" / "models" / "large.toml"
    own.write_text("[[pair]]\ntarget = 'a'\ndraft = 'b'\n")
    before = own.read_text()
    with pytest.raises(ConfigError, match=r"large\.toml already"):
        make_quantized("tiny", "q8_0", tmp_path / "large.gguf")
    assert own.read_text() == before
    assert not (tmp_path / "large.gguf").exists()


def test_the_drafter_that_was_registered_last_is_preferred(models: Path, tiny_near_copy: Path) -> None:
    names = ("b-draft", "a-draft", "c-draft", "a-draft")
    for name in names:
        shutil.copy(tiny_near_copy, models / f"{name}.gguf")
        register(replace(MADE, name=name), drafts_for="tiny")
        assert draft_model(load_catalog()["tiny"]) == name
    assert set(names) <= set(load_catalog())


@pytest.fixture
def made(models: Path, tiny_near_copy: Path) -> list[str]:
    """Drafters of `tiny` in the order in which they were registered, which is not that of their names."""
    names = ["b-draft", "c-draft", "a-draft"]
    for name in names:
        shutil.copy(tiny_near_copy, models / f"{name}.gguf")
        register(replace(MADE, name=name), drafts_for="tiny")
    return names


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result


@pytest.mark.parametrize("command", [("draft", "rm"), ("models", "rm", "-y")])
@pytest.mark.parametrize("gone", ["nothing", "the file", "what it links to"])
def test_whichever_drafter_goes_the_latest_of_the_others_is_the_default(
    models: Path, made: list[str], command: tuple[str, ...], gone: str, tmp_path: Path
) -> None:
    for removed in (made[1], made[2], made[0]):
        path = models / f"{removed}.gguf"
        if gone != "nothing":
            path.unlink()
        if gone == "what it links to":
            path.symlink_to(tmp_path / "nowhere.gguf")
        said = run(*command, removed).stderr
        made.remove(removed)
        default = made[-1] if made else "tiny-draft"
        assert draft_model(load_catalog()["tiny"]) == default
        assert f"{default} drafts for tiny now." in said
        assert ("was gone already; it is no longer registered" in said) == (gone == "the file")
        assert removed not in load_catalog()
        assert not path.is_symlink()


def test_a_drafter_that_is_registered_again_is_the_latest(made: list[str]) -> None:
    register(replace(MADE, name=made[0]), drafts_for="tiny")
    assert load_catalog()["tiny"].preferred_pairs == (made[0], made[2], made[1])


def test_while_a_file_is_missing_the_drafter_before_it_is_taken(models: Path, made: list[str]) -> None:
    for name in reversed(made):
        assert draft_model(load_catalog()["tiny"]) == name
        (models / f"{name}.gguf").unlink()
    assert draft_model(load_catalog()["tiny"]) == "tiny-draft"
    (models / "tiny-draft.gguf").unlink()
    assert "Only n-gram lookup drafts for tiny now." in run("draft", "rm", made[0]).stderr


def test_a_target_made_here_shares_the_drafters_of_its_source(models: Path, made: list[str]) -> None:
    make_quantized("tiny", "q8_0", None)
    own = replace(MADE, name="own")
    shutil.copy(models / "tiny-draft.gguf", models / "own.gguf")
    register(own, drafts_for="tiny-q8_0")
    assert draft_model(load_catalog()["tiny-q8_0"]) == "own"
    assert "a-draft drafts for tiny-q8_0 now." in run("draft", "rm", "own").stderr


def test_a_pair_of_the_user_s_may_have_a_rank(tmp_path: Path, made: list[str]) -> None:
    own = tmp_path / "config" / "homespec" / "models" / "zz.toml"
    own.write_text('[[pair]]\ntarget = "tiny"\ndraft = "tiny-draft"\n')
    assert draft_model(load_catalog()["tiny"]) == made[-1]
    own.write_text(own.read_text() + "rank = 100\n")
    assert draft_model(load_catalog()["tiny"]) == "tiny-draft"


def test_long_names_of_any_script_fit_into_the_metadata(tmp_path: Path, tiny_target: Path) -> None:
    for name in ("語" * 80, "é" + "x" * 140):
        source = tmp_path / f"{name}.gguf"
        shutil.copy(tiny_target, source)
        made = make_quantized(str(source), "q8_0", tmp_path / "made" / f"{name[:4]}-q8.gguf")
        kept = read_header(made.path).text("homespec.source.name")
        assert kept
        assert name.startswith(kept)


def test_elsewhere_it_is_found_by_name_too(models: Path, tmp_path: Path) -> None:
    made = make_quantized("tiny", "q8_0", tmp_path / "disk" / "Large One.gguf")
    assert made.entry.name == "large-one"
    assert resolve("large-one").path.resolve() == tmp_path / "disk" / "Large One.gguf"


def test_the_commands(models: Path) -> None:
    assert run("models", "quantize", "tiny", "q8_0").stdout.splitlines()[0] == "tiny-q8_0"
    assert "quantized to Q8_0, from tiny" in run("models", "show", "tiny-q8_0").stdout
    assert "ok" in run("models", "check", "tiny-q8_0").stdout
    (models / "tiny-q8_0.gguf").unlink()
    with pytest.raises(DownloadError, match="made on this machine"):
        run("models", "pull", "tiny-q8_0")
    run("models", "quantize", "tiny", "q8_0")
    run("models", "rm", "-y", "tiny-q8_0")
    assert "tiny-q8_0" not in load_catalog()
