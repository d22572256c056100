"""Replies, draft models made by recipe, and what is found out about them, on tiny models."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from homespec.calibration.costs import DrafterCosts
from homespec.calibration.curve import CostCurve
from homespec.catalog.facts import model_facts
from homespec.catalog.gguf_header import read_header
from homespec.catalog.trimmed import read_trim
from homespec.engine.diet.judging import Judge, score
from homespec.engine.diet.passages import Passage, Prompt, collect, in_turn, usual_texts
from homespec.engine.diet.recording import CHUNK_ROWS, record
from homespec.engine.diet.trial import Bench
from homespec.engine.diet.workshop import Workshop
from homespec.engine.engine import Engine
from homespec.engine.settings import EngineSettings
from homespec.errors import VocabMismatchError
from homespec.reduce.search import Recipe
from homespec.runtime.binding import AbortFlag
from homespec.runtime.state import state_directory
from tests.support.opened import opened

CURVE = CostCurve((1, 2, 8), (32, 32), (1.0, 1.1, 1.7), (1.0, 1.1, 1.7))
WHOLE = Recipe("Q8_0", 320, (1,))


@pytest.fixture
def engine(tiny_target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setenv("HOMESPEC_STATE", str(tmp_path / "state"))
    with Engine(str(tiny_target), draft="off") as engine:
        yield engine


def test_any_beginning_of_the_prompts_is_mixed() -> None:
    texts = [("code", ["aaa", "a", "aa", "aaaa"]), ("prose", ["bb", "b"]), ("lists", ["c", "cc", "ccc"])]
    prompts = in_turn(texts)
    assert sorted(prompt.text for prompt in prompts) == sorted(text for _, some in texts for text in some)
    for kind, some in texts:
        mine = [prompt for prompt in prompts if prompt.kind == kind]
        assert [prompt.text for prompt in mine] == sorted(some, key=len)
        assert [prompt.counted for prompt in mine] == [bool(number % 2) for number in range(len(mine))]
    for end in range(1, 7):  # as long as every kind has some left
        numbers = Counter(prompt.kind for prompt in prompts[:end])
        assert max(numbers.values()) - min(numbers[kind] for kind, _ in texts) <= 1
    assert in_turn([]) == in_turn([("code", [])]) == []


def test_replies_are_stored_and_used_again(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = in_turn([("code", ["def the", "return the ring"]), ("prose", ["and", "the king and"])])
    shares: list[float] = []
    passages = collect(engine, prompts, lambda: True, shares.append)
    assert [(passage.kind, passage.counted) for passage in passages] == [
        (prompt.kind, prompt.counted) for prompt in prompts
    ]
    assert shares == [0.0, 0.25, 0.5, 0.75]
    for passage in passages:
        logits = engine.next_logits(passage.tokens[: passage.num_prompt_tokens])
        assert passage.tokens[passage.num_prompt_tokens] == logits.argmax()
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "generate", None)
        assert collect(engine, prompts, lambda: False) == passages


def test_without_time_there_is_one_reply_of_each_use(engine: Engine) -> None:
    prompts = in_turn([("code", ["def the", "return the ring"]), ("prose", ["and", "the king and"])])
    found = collect(engine, prompts, lambda: False)
    assert sorted(passage.counted for passage in found) == [False, True]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"kind": "code"}',
        '{"kind": "code", "counted": false, "tokens": [1, 2], "num_prompt_tokens": 3}',
        '{"kind": "code", "counted": false, "tokens": [1, 2], "num_prompt_tokens": 0}',
        '{"kind": "code", "counted": false, "tokens": [1, Infinity], "num_prompt_tokens": 1}',
        '{"kind": "code", "counted": false, "tokens": ["x"], "num_prompt_tokens": 1}',
    ],
)
def test_a_damaged_reply_is_as_good_as_none(engine: Engine, text: str) -> None:
    prompts = [Prompt("code", "def the", counted=False)]
    passages = collect(engine, prompts, lambda: True)
    (path,) = (state_directory() / "replies").rglob("*.json")
    whole = path.read_text()
    path.write_text(text)
    assert collect(engine, prompts, lambda: True) == passages
    assert path.read_text() == whole


def test_usual_texts_end() -> None:
    some, more = (sum(map(len, usual_texts(most))) for most in (1, 2_000_000))
    assert 0 < some < more < 4_000_000


def test_layers_then_type_then_vocabulary(tiny_target: Path, tmp_path: Path) -> None:
    shop = Workshop(tiny_target, tmp_path / "shop", Counter({300: 5}))
    assert shop.make(Recipe()) == tiny_target
    path = shop.make(WHOLE)
    header = read_header(path)
    assert model_facts(header).num_layers == 1
    assert read_trim(header) is not None
    assert {tensor.type_name for tensor in header.tensors} == {"Q8_0", "F32"}
    with opened(path, as_drafter=True) as context:
        assert context.decode([300, 301]).shape[0] == 2
    # On the way each step was made once, and is there for other recipes.
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "shop").glob("*.gguf")}
    assert len(made) == 3
    for recipe in (WHOLE, replace(WHOLE, num_tokens=None), Recipe(layers=(1,))):
        assert made[shop.make(recipe)] == shop.make(recipe).stat().st_mtime_ns
    assert len(list((tmp_path / "shop").glob("*.gguf"))) == 3


def test_tidying_keeps_what_is_wanted_and_what_that_is_made_from(tiny_target: Path, tmp_path: Path) -> None:
    shop = Workshop(tiny_target, tmp_path / "shop", Counter())
    shop.make(WHOLE)
    other = shop.make(Recipe("Q4_0"))
    shop.tidy([WHOLE, Recipe()])
    assert not other.exists()
    assert len(list((tmp_path / "shop").glob("*.gguf"))) == 3
    shop.tidy([Recipe(layers=(1,))])
    assert list((tmp_path / "shop").glob("*.gguf")) == [shop.make(Recipe(layers=(1,)))]
    shop.tidy([])
    assert not list((tmp_path / "shop").glob("*.gguf"))
    assert tiny_target.exists()


def test_who_heeds_may_stop_the_work(tiny_target: Path, tmp_path: Path) -> None:
    def heed() -> None:
        raise KeyboardInterrupt

    shop = Workshop(tiny_target, tmp_path / "shop", Counter(), heed)
    with pytest.raises(KeyboardInterrupt):
        shop.make(Recipe("Q8_0"))
    assert not list(tmp_path.rglob("*.gguf*"))


@pytest.fixture
def bench(tiny_target: Path) -> Bench:
    with opened(tiny_target) as context:
        tokens = [1, *range(270, 300)]
        for _ in range(50):
            row = context.decode(tokens[context.num_cached_tokens :], rows="last")[0]
            tokens.append(int(row.argmax()))
    passages = [Passage("code", counted, tuple(tokens), 31) for counted in (False, True)]
    return Bench(read_header(tiny_target), passages, AbortFlag())


def judge_of(bench: Bench, target: Path, draft: Path, memory: Path | None) -> Judge:
    return Judge(bench, CURVE, draft, EngineSettings(str(target)), memory)


def test_the_bench_records_what_the_model_says(bench: Bench, tiny_near_copy: Path, tiny_target: Path) -> None:
    (recording,) = bench.record(tiny_near_copy, bench.passages[:1])
    with opened(tiny_near_copy, max_rows=CHUNK_ROWS) as context:
        assert recording.proposals == record(context, bench.passages[0]).proposals
    (own,) = bench.record(tiny_target, bench.passages[:1])
    assert all(own.agreed)


def test_a_stranger_is_refused(bench: Bench, tiny_stranger: Path) -> None:
    with pytest.raises(VocabMismatchError):
        bench.record(tiny_stranger, bench.passages)
    with pytest.raises(VocabMismatchError):
        bench.measure([tiny_stranger])


def test_the_judge_remembers(
    bench: Bench, tiny_target: Path, tiny_near_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("homespec.engine.diet.trial._BUDGET_SECONDS", 0.0)
    memory = tmp_path / "findings.json"
    judge = judge_of(bench, tiny_target, tiny_near_copy, memory)
    original, itself = judge.original_finding(), judge.judge("itself", tiny_target)
    assert itself.acceptance.mean_length == 6.0
    assert 1.0 <= original.acceptance.mean_length < 6.0
    assert original.acceptance.num_drafts > 0
    assert original.file_bytes == tiny_near_copy.stat().st_size
    assert original.needed_bytes > 0
    assert original.fits
    lost = original.acceptance.mean_length - itself.acceptance.mean_length
    assert score(itself, original, of_itself=False).lost_length == lost
    assert score(original, itself, of_itself=True).lost_length == 0.0
    assert judge.lookup_alone().speedup >= 1.0

    again = judge_of(bench, tiny_target, tiny_near_copy, memory)
    with monkeypatch.context() as patch:
        patch.setattr(Bench, "measure", None)
        patch.setattr(Bench, "record", None)
        assert (again.original_finding(), again.judge("itself", tiny_target)) == (original, itself)
        assert again.measure("itself", tiny_target) == itself.costs
    assert again.recall("another") is None


def test_costs_are_told_as_if_measured_with_the_original(
    bench: Bench, tiny_target: Path, tiny_near_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is half as fast when the second is measured: both are, so it is not held against it."""
    figures = iter(
        [[DrafterCosts(2.0, 4.0, 10.0)], [DrafterCosts(4.0, 8.0, 5.0), DrafterCosts(2.0, 3.0, 8.0)]]
    )
    monkeypatch.setattr(Bench, "measure", lambda self, paths: next(figures))
    judge = judge_of(bench, tiny_target, tiny_near_copy, None)
    assert judge.measure("itself", tiny_target) == DrafterCosts(1.0, 1.5, 16.0)


@pytest.mark.parametrize("damage", ["file", "costs", "needed_bytes", "acceptance", "expectation"])
def test_damaged_findings_are_as_good_as_none(
    bench: Bench,
    tiny_target: Path,
    tiny_near_copy: Path,
    tmp_path: Path,
    damage: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("homespec.engine.diet.trial._BUDGET_SECONDS", 0.0)
    memory = tmp_path / "findings.json"
    judge_of(bench, tiny_target, tiny_near_copy, memory).original_finding()
    known = json.loads(memory.read_text())
    if damage == "costs":
        known["original"]["costs"]["seconds_per_token"] = "soon"
    elif damage != "file":
        known["original"][damage] = "none"
    memory.write_text("{" if damage == "file" else json.dumps(known))
    judge = judge_of(bench, tiny_target, tiny_near_copy, memory)
    assert judge.recall("original") is None
    found = judge.original_finding()
    assert found.costs.seconds_per_token > 0
    assert judge_of(bench, tiny_target, tiny_near_copy, memory).recall("original") == found
