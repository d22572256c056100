"""From records to a file and back, and what is made of them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from homespec.benchmark import compare, quick, summary
from homespec.benchmark.records import Record, Recorder
from homespec.benchmark.results import Results, read_results
from homespec.errors import ConfigError
from tests.support.made_up_bench import RUN, SESSION, TARGET, difference, runs, write


def text_of(parts: Iterable[RenderableType]) -> str:
    console = Console(file=io.StringIO(), width=80, highlight=False)
    for part in parts:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Automatic drafting is 2 and 1.6 times as fast; a fixed length says something else."""
    records: list[Record] = [
        *runs("plain", (4.0, 8.0)),
        *runs("ngram 5", (3.0, 3.0)),
        *runs("auto", (2.0, 5.0)),
        difference("ngram 5", 1.5),
    ]
    return read_results(write(tmp_path / "results.jsonl", *records))


class TestFiles:
    def test_records_come_back(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.jsonl", RUN, difference("auto", 0.1))
        first = json.loads(path.read_text().splitlines()[0])
        assert next(iter(first)) == "record"
        found = read_results(path)
        assert found.session.build == SESSION.build
        assert found.session.arms == SESSION.arms
        assert found.targets[0].planned_bytes == 200_000_000
        assert found.runs[0].width_counts.values() == RUN.width_counts.values() or found.runs[0].width_counts
        assert (found.runs[0].seconds, found.runs[0].energy_joules) == (4.0, 8.0)
        assert found.differences[0].near_tie

    def test_a_last_line_that_is_not_whole_is_left_out(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.jsonl", RUN, RUN)
        path.write_text(path.read_text()[:-40])
        found = read_results(path)
        assert found.truncated
        assert len(found.runs) == 1

    def test_nothing_is_overwritten(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.jsonl")
        with pytest.raises(ConfigError, match="is there already"):
            Recorder(path)
        with pytest.raises(ConfigError, match="cannot be written"):
            Recorder(tmp_path / "nowhere" / "a.jsonl")


class TestSummary:
    def test_tables_fit_a_terminal(self, results: Results) -> None:
        text = text_of(summary.render(results))
        assert max(map(len, text.splitlines())) <= 80
        assert TARGET in text
        assert "1.71 (1.60 to 2.00)" in text

    def test_other_texts_have_no_speedup(self, results: Results) -> None:
        lines = text_of(summary.render(results)).splitlines()
        assert any("ngram 5" in line and "not compared" in line for line in lines)
        assert any("texts differ beyond near ties" in line for line in lines)

    def test_for_programs(self, results: Results) -> None:
        found = json.loads(json.dumps(summary.to_json(results)))
        cells = {cell["arm"]: cell for cell in found["targets"][0]["cells"]}
        assert cells["auto"]["speedup"]["ratio"] == pytest.approx(12 / 7)
        assert cells["auto"]["mean_acceptance_length"] == 3.0
        assert cells["auto"]["joules_per_token"] == 0.5
        assert cells["ngram 5"]["speedup"] is None
        assert "texts differ" in cells["ngram 5"]["not_compared"]
        assert cells["plain"]["speedup"] is None

    def test_the_quick_answer(self, results: Results) -> None:
        (answer,) = quick.answers(results)
        start = f"On this machine, with {TARGET}, it pays, as far as 2 prompts can tell: 1.71 times "
        assert answer.startswith(start)
        assert "1.71 times (1.60 to 2.00) on code" in answer
        assert answer.endswith("drafter: n-gram lookup.")

    def test_a_quick_answer_without_time(self, tmp_path: Path) -> None:
        (answer,) = quick.answers(read_results(write(tmp_path / "a.jsonl", RUN)))
        assert "nothing was compared" in answer


class TestCompare:
    def test_prompt_by_prompt(self, tmp_path: Path, results: Results) -> None:
        # The third prompt is missing in the first file, and the second one is another.
        after = [
            *runs("auto", (1.0, 5.0, 9.0)),
            replace(RUN, arm="auto", warm_up=True),
            *runs("draft-model 3", (1.0, 1.0)),
        ]
        after[1] = replace(after[1], prompt_tokens=99)
        other = read_results(write(tmp_path / "after.jsonl", *after))
        (change,) = compare.compare_results(results, other)
        assert (change.scenario, change.arm, change.num_prompts) == ("code", "auto", 1)
        assert change.ratio.value == pytest.approx(2.0)
        assert "2.00" in text_of(compare.render([change]))
        assert compare.describe_differences(results, other) == ""

    def test_another_origin_is_told(self, tmp_path: Path, results: Results) -> None:
        session = replace(
            SESSION,
            build="another",
            machine=replace(SESSION.machine, cpu="Other CPU"),
            models=(replace(SESSION.models[0], sha256="bb"),),
        )
        other = read_results(write(tmp_path / "b.jsonl", *runs("auto", (1.0,)), session=session))
        sentence = compare.describe_differences(results, other)
        assert "processor (Some CPU, then Other CPU)" in sentence
        assert "llama.cpp" in sentence
        assert "model files" in sentence
        assert "kernel" not in sentence

    def test_other_texts_are_told(self, tmp_path: Path, results: Results) -> None:
        after = [replace(run, text_sha256="bb") for run in runs("auto", (1.0, 2.0))]
        changes = compare.compare_results(results, read_results(write(tmp_path / "b.jsonl", *after)))
        assert "2 of 2 prompts were answered with another text" in " ".join(
            text_of(compare.render(changes)).split()
        )

    def test_single_targets_of_other_names(self, tmp_path: Path, results: Results) -> None:
        after = [replace(run, target="smaller") for run in runs("auto", (1.0, 2.0))]
        changes = compare.compare_results(results, read_results(write(tmp_path / "b.jsonl", *after)))
        assert [change.target for change in changes] == ["small and smaller"]

    def test_cold_and_warm_do_not_compare(self, tmp_path: Path, results: Results) -> None:
        session = replace(SESSION, settings=replace(SESSION.settings, cold=True))
        other = read_results(write(tmp_path / "b.jsonl", *runs("auto", (1.0,)), session=session))
        with pytest.raises(ConfigError, match="cold"):
            compare.compare_results(results, other)

    def test_nothing_in_common(self, tmp_path: Path, results: Results) -> None:
        other = read_results(write(tmp_path / "b.jsonl", *runs("auto", (1.0,), scenario="chat")))
        with pytest.raises(ConfigError, match="in common"):
            compare.compare_results(results, other)
