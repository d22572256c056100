"""`homespec draft` from end to end, on tiny models."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from homespec.calibration.costs import DrafterCosts
from homespec.catalog.entries import load_catalog
from homespec.catalog.gguf_header import read_header
from homespec.catalog.store import draft_model, model_path
from homespec.catalog.trimmed import read_trim
from homespec.cli.main import cli
from homespec.engine.diet import reducing
from homespec.engine.diet.judging import Finding, Judge
from homespec.engine.diet.trial import Bench
from homespec.engine.diet.workshop import Workshop
from homespec.engine.engine import Engine
from homespec.errors import ConfigError, ModelNotFoundError
from homespec.reduce.search import Recipe
from tests.support.own_models import add_tiny_pair


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_target: Path, tiny_near_copy: Path) -> Path:
    """`tiny` and its pair `tiny-draft`, whose drafts are always cheap in what follows."""
    directory = add_tiny_pair(tmp_path, monkeypatch, tiny_target, tiny_near_copy)

    # One decode in half the time for half the bytes: what a test says must not hang on the clock.
    def measure(bench: Bench, paths: list[Path]) -> list[DrafterCosts]:
        sizes = [path.stat().st_size * 1e-9 for path in paths]
        return [DrafterCosts(size, 2 * size, 1 / size) for size in sizes]

    monkeypatch.setattr(Bench, "measure", measure)
    return directory


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    path = tmp_path / "prompts.jsonl"
    texts = ("return the thing", "def and in", "the ring and the return", "define", "an ant", "other")
    path.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    return str(path)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["draft", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def reduce(
    prompts: str, *arguments: str, draft: str = "tiny-draft", target: str = "tiny"
) -> dict[str, object]:
    fixed = (draft, "--for", target, "--prompts", prompts, "--time", "60s", "--json")
    found: dict[str, object] = json.loads(run("reduce", *fixed, *arguments))
    return found


def test_a_better_one_drafts_from_then_on_until_it_is_removed(models: Path, prompts: str) -> None:
    found = reduce(prompts, "--type", "q8_0", "--vocab", "320")
    name = found["name"]
    assert isinstance(name, str)
    header = read_header(model_path(name))
    trim = read_trim(header)
    assert trim is not None
    assert len(trim.token_ids) == 320
    source = load_catalog()[name].made_from
    assert source is not None
    assert (source.model, source.recipe) == ("tiny-draft", "Q8_0, 320 tokens")
    assert header.text("homespec.source.sha256") == source.sha256
    assert found["is_default"] == (draft_model(load_catalog()["tiny"]) == name)
    with Engine("tiny", draft=name, draft_length=3, min_confidence=0.0) as engine:
        assert engine.plan.speculation
        assert engine.session().reply("return").stats.num_drafts > 0
    run("rm", name)
    assert draft_model(load_catalog()["tiny"]) == "tiny-draft"
    assert not model_path(name).exists()
    assert sorted(path.name for path in (models / ".reducing").iterdir()) == ["lock"]


def test_the_search_takes_the_cheapest_that_is_as_good_and_makes_it_the_default(
    models: Path, prompts: str
) -> None:
    found = reduce(prompts, "--auto")
    assert found["chosen"] in ("Q4_0", "IQ4_NL", "Q4_0, 1 of 2 layers", "IQ4_NL, 1 of 2 layers", "as it is")
    assert "Q8_0" in found["slower"]  # type: ignore[operator]
    assert "Q4_0" not in found["slower"]  # type: ignore[operator]
    if found["name"]:
        assert found["is_default"]
        assert json.loads(run("list", "--json"))["tiny"] == found["name"]


def test_again_nothing_is_measured_anew_and_nothing_made(
    models: Path, prompts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = reduce(prompts, "--auto")

    def refuse(*_arguments: object) -> None:
        raise AssertionError("known already")

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "generate", refuse)
        if first["name"] is None:
            patch.setattr(Bench, "measure", refuse)
        second = reduce(prompts, "--auto")
    assert second["name"] is None
    assert second["chosen"] == first["chosen"]


def test_other_texts_make_other_vocabularies(models: Path, prompts: str, tmp_path: Path) -> None:
    reduce(prompts, "--vocab", "320")
    text = tmp_path / "text.txt"
    text.write_text("~~~ ||| ~~~ " * 500)
    before = read_trim(read_header(model_path("tiny-draft-320")))
    found = reduce(prompts, "--vocab", "320", "--text", str(text))
    after = read_trim(read_header(model_path("tiny-draft-320")))
    assert before is not None
    assert after is not None
    assert before.token_ids != after.token_ids
    assert found["drafters"]["as it is"] != found["drafters"]["320 tokens"]  # type: ignore[index]


def test_layers_of_the_target_itself(models: Path, prompts: str) -> None:
    found = reduce(prompts, "--layers", "1", draft="tiny")
    name = found["name"]
    assert isinstance(name, str)
    assert read_header(model_path(name)).integer("llama.block_count") == 1
    # The published draft model is nearly always right: half the target is not better than that.
    assert draft_model(load_catalog()["tiny"]) == (name if found["is_default"] else "tiny-draft")


def test_a_target_outside_the_catalogue_gets_no_default(
    models: Path, prompts: str, tiny_target: Path
) -> None:
    found = reduce(prompts, "--type", "q8_0", target=str(tiny_target))
    assert found["name"] == "tiny-draft-q8_0"
    assert not found["is_default"]
    load_catalog()


def test_eval_compares_with_the_published_pair(models: Path, prompts: str) -> None:
    arguments = ("-m", "tiny", "--prompts", prompts, "--json")
    found = json.loads(run("eval", "tiny", *arguments))
    assert list(found["drafters"]) == ["tiny-draft", "tiny"]
    itself = found["drafters"]["tiny"]["acceptance"]
    assert itself["mean_length"] == 6.0
    assert itself["by_position"] == [1.0] * 5
    assert 1.0 <= found["drafters"]["tiny-draft"]["acceptance"]["mean_length"] < 6.0
    assert "length" in run("eval", "tiny-draft", *arguments[:-1])


@pytest.mark.parametrize(
    "arguments",
    [
        ["tiny-draft", "--for", "tiny"],
        ["tiny-draft", "--for", "tiny", "--auto", "--type", "Q4_0"],
        ["tiny-draft", "--for", "tiny", "--type", "Q9"],
        ["tiny-draft", "--for", "tiny", "--vocab", "1000000"],
        ["tiny-draft", "--for", "tiny", "--layers", "3"],
        ["tiny-draft", "--for", "tiny", "--auto", "--time", "soon"],
    ],
)
def test_bad_orders_are_refused_at_once(
    models: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reducing, "make_survey", lambda *a, **k: pytest.fail("too late"))
    with pytest.raises(ConfigError):
        run("reduce", *arguments)


def test_only_what_was_made_here_is_removed(models: Path) -> None:
    with pytest.raises(ConfigError):
        run("rm", "tiny-draft")
    with pytest.raises(ModelNotFoundError):
        run("rm", "nothing")
    assert model_path("tiny-draft").exists()


def test_what_a_killed_process_left_is_not_taken_for_another_model(
    models: Path, tiny_near_copy: Path, tiny_target: Path
) -> None:
    directory, recipe = models / ".reducing", Recipe("Q8_0")
    with Workshop.opened(tiny_target, directory, Counter(), lambda: None) as shop:
        left = shop.make(recipe)
        content = left.read_bytes()
        with (
            pytest.raises(ConfigError, match="Another process"),
            Workshop.opened(tiny_near_copy, directory, Counter(), lambda: None),
        ):
            pass
        assert left.exists()
    left.write_bytes(content)
    with Workshop.opened(tiny_near_copy, directory, Counter(), lambda: None) as shop:
        assert not left.exists()
        assert shop.make(recipe).read_bytes() != content


def test_the_drafter_so_far_must_be_beaten(
    models: Path, prompts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the target, made from it, is compared with its published draft model too."""
    honest = Judge.judge

    def judge(self: Judge, name: str, path: Path) -> Finding:
        found = honest(self, name, path)
        best = 9.0 if path.name == "tiny-draft.gguf" else 2.0
        return replace(found, expectation=replace(found.expectation, speedup=best))

    monkeypatch.setattr(Judge, "judge", judge)
    found = reduce(prompts, "--layers", "1", draft="tiny")
    assert found["name"]
    assert not found["is_default"]
    assert draft_model(load_catalog()["tiny"]) == "tiny-draft"
