"""In which order arms answer prompts, and what is written down."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from homespec.benchmark import turns
from homespec.benchmark.arms import AUTO, PLAIN, Arm
from homespec.benchmark.measuring import Place, Prompt
from homespec.benchmark.models import Models, Ready
from homespec.benchmark.records import DifferenceRecord, Record, Recorder, RunRecord
from homespec.benchmark.scenarios import Scenario
from homespec.benchmark.settings import BenchSettings
from homespec.engine.engine import Engine
from homespec.engine.settings import EngineSettings
from homespec.errors import ResourceError
from homespec.records import GenerationStats, PlanSummary, Reply, RequestParams
from tests.support.made_up_bench import RUN

SCENARIOS = (
    Scenario("code", "Code", "en", ("one", "two")),
    Scenario("chat", "Chat", "en", ("three",)),
)
PLAN = PlanSummary(True, "on", "There is room.", 4096, 5)
TOKENS = (5, 6, 7)


class FakeRecorder:
    def __init__(self) -> None:
        self.records: list[Record] = []

    def write(self, record: Record) -> None:
        self.records.append(record)

    @property
    def runs(self) -> list[RunRecord]:
        return [record for record in self.records if isinstance(record, RunRecord) and not record.warm_up]


class FakeModels:
    def __init__(self) -> None:
        self.num_checks = 0

    @contextlib.contextmanager
    def ready(self, arm: Arm) -> Iterator[Ready]:
        yield Ready(cast(Engine, None), 0.0, 1.0)

    def check(self) -> None:
        self.num_checks += 1


class Rig:
    """Turns with a fake in place of the models; what each arm says can be changed."""

    def __init__(self, **settings: object) -> None:
        self.recorder, self.models = FakeRecorder(), FakeModels()
        self.said: dict[str, tuple[int, ...]] = {}
        self.reason = "on"
        self.seconds = 0.0
        self.now = 0.0
        self.shares: list[float] = []
        self.settings = replace(
            BenchSettings(("small",), EngineSettings(""), SCENARIOS, repetitions=2),
            **settings,  # type: ignore[arg-type]
        )

    def measure(
        self, models: Models, arm: Arm, prompt: Prompt, params: RequestParams, place: Place
    ) -> tuple[Reply, RunRecord]:
        self.now += self.seconds
        tokens = self.said.get(arm.name, TOKENS)
        reply = Reply("text", tokens, "length", "small", "ngram", "greedy", 0, GenerationStats(), PLAN)
        record = replace(
            RUN,
            scenario=place.scenario,
            prompt=place.prompt,
            repetition=place.repetition,
            arm=arm.name,
            order=place.order,
            warm_up=place.warm_up,
            reason=self.reason,
        )
        return reply, record

    def run(self, monkeypatch: pytest.MonkeyPatch) -> list[RunRecord]:
        monkeypatch.setattr(turns, "measure", self.measure)
        monkeypatch.setattr(turns, "top_gap", lambda engine, tokens: 0.1 if tokens[-1] == 5 else 3.0)
        monkeypatch.setattr(turns, "monotonic", lambda: self.now)
        prompts = {
            scenario.name: [Prompt(text, [1, 2]) for text in scenario.prompts] for scenario in SCENARIOS
        }
        own = turns.Turns(
            self.settings, cast(Recorder, self.recorder), lambda what, share: self.shares.append(share)
        )
        own.num_replies = 2 * self.settings.num_turns
        own.run(turns.Subject("small", self.models, [PLAIN, AUTO], prompts, Prompt("warm", [1])))
        return self.recorder.runs


def test_arms_take_turns_and_scenarios_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    runs = rig.run(monkeypatch)
    assert [(run.scenario, run.prompt, run.repetition, run.arm) for run in runs] == [
        ("code", 0, 0, "plain"), ("code", 0, 0, "auto"), ("code", 0, 1, "auto"), ("code", 0, 1, "plain"),
        ("chat", 0, 0, "plain"), ("chat", 0, 0, "auto"), ("chat", 0, 1, "auto"), ("chat", 0, 1, "plain"),
        ("code", 1, 0, "auto"), ("code", 1, 0, "plain"), ("code", 1, 1, "plain"), ("code", 1, 1, "auto"),
    ]  # fmt: skip
    assert rig.models.num_checks == 6
    assert rig.shares == sorted(rig.shares)


def test_every_arm_is_warmed_up_once_before(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.run(monkeypatch)
    records = [record for record in rig.recorder.records if isinstance(record, RunRecord)]
    assert [record.arm for record in records[:2]] == ["plain", "auto"]
    assert [record.warm_up for record in records] == [True] * 2 + [False] * 12
    assert [record.order for record in records] == list(range(14))


def test_cold_starts_have_no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(cold=True)
    rig.run(monkeypatch)
    assert not any(record.warm_up for record in rig.recorder.records if isinstance(record, RunRecord))


def test_no_turn_is_begun_that_would_end_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(limit_seconds=30.0)
    rig.seconds = 3.0  # the warm-up takes 6, each turn 6
    assert len(rig.run(monkeypatch)) == 2 * 4


@pytest.mark.parametrize(("text", "position", "near_tie"), [((5, 9, 7), 1, True), ((5, 6, 9), 2, False)])
def test_texts_that_part_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, text: tuple[int, ...], position: int, near_tie: bool
) -> None:
    rig = Rig(repetitions=1)
    rig.said["auto"] = text
    rig.run(monkeypatch)
    found = [record for record in rig.recorder.records if isinstance(record, DifferenceRecord)]
    assert len(found) == 3
    assert {(record.arm, record.position, record.near_tie) for record in found} == {
        ("auto", position, near_tie)
    }


def test_sampled_texts_may_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(temperature=1.0)
    rig.said["auto"] = (1, 1)
    rig.run(monkeypatch)
    assert not any(isinstance(record, DifferenceRecord) for record in rig.recorder.records)


def test_without_drafters_nothing_is_left_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.reason = "would_page"
    with pytest.raises(ResourceError, match="were dropped"):
        rig.run(monkeypatch)
    assert len(rig.recorder.runs) == 1


def test_repetitions_draw_other_texts_for_all_arms_alike() -> None:
    settings = BenchSettings(("small",), EngineSettings(""), SCENARIOS, temperature=1.0)
    seeds = {
        settings.request(prompt, repetition).sampling.seed for prompt in range(2) for repetition in range(3)
    }
    assert len(seeds) == 6


def test_first_difference() -> None:
    from homespec.benchmark.exactness import first_difference

    assert first_difference((1, 2), (1, 2)) is None
    assert first_difference((1, 2), (1, 3)) == 1
    assert first_difference((1, 2), (1,)) == 1
    assert first_difference((), (1,)) == 0


def test_results_file_is_plain_text(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.jsonl") as recorder:
        recorder.write(replace(RUN, explanation="größer"))
    assert (tmp_path / "a.jsonl").read_text(encoding="ascii").count("\n") == 1
