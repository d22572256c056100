"""`homespec bench` as a user meets it, in processes of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from homespec.engine.engine import Engine
from homespec.engine.settings import FixedDraft
from homespec.records import RequestParams, SamplingParams
from tests.integration.conftest import SMOLLM2, require

BENCH = [sys.executable, "-m", "homespec", "bench"]
# Other tests keep the machine busy, and nothing is concluded from the times.
QUICKLY = ["--anyway", "--num-prompts", "2", "-n", "16", "--repetitions", "2"]


def bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*BENCH, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "own.jsonl"
    texts = ("Say abc, then abc again.", "Write abcabcabc.", "Count.")
    path.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    return path


@pytest.mark.model
def test_a_scenario_from_records_to_comparison(tmp_path: Path) -> None:
    require(SMOLLM2)
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file in files:
        result = bench(*QUICKLY, "--scenario", "code", "--lengths", "3", "--out", file)
        assert result.returncode == 0, result.stderr
        assert max(map(len, result.stdout.splitlines())) <= 80
        assert "together" not in result.stdout
    lines = records(files[0])
    assert [line["record"] for line in lines[:2]] == ["session", "target"]
    assert len(lines[0]["models"][0]["sha256"]) == 64
    runs = [line for line in lines if line["record"] == "run" and not line["warm_up"]]
    assert [run["arm"] for run in runs[:6]] == ["plain", "ngram 3", "auto", "auto", "ngram 3", "plain"]
    assert len(runs) == 2 * 2 * 3
    for run in runs:
        parts = sum(run[f"{part}_seconds"] for part in ("prefill", "draft", "verify", "sample", "other"))
        assert parts == pytest.approx(run["seconds"], rel=0.05)
        assert run["tokens"] <= 16
    # SmolLM2 is Q4_1: its rows are the same at every width, and so are the texts.
    for prompt in range(2):
        assert len({run["text_sha256"] for run in runs if run["prompt"] == prompt}) == 1
    assert not [line for line in lines if line["record"] == "difference"]

    compared = json.loads(bench("compare", *files, "--json").stdout)
    assert {change["arm"] for change in compared["changes"]} == {"plain", "ngram 3", "auto"}
    assert all(change["num_other_texts"] == 0 for change in compared["changes"])
    assert compared["differences"] == ""


@pytest.mark.model
def test_the_quick_form(tmp_path: Path) -> None:
    require(SMOLLM2)
    result = bench("--quick", "--anyway", "--scenario", "chat", "--num-prompts", "2", "-n", "8")
    assert result.returncode == 0, result.stderr
    assert f"On this machine, with {SMOLLM2}, " in result.stdout


def test_with_a_draft_model(tmp_path: Path, tiny_target: Path, tiny_near_copy: Path, prompts: Path) -> None:
    out = tmp_path / "out.jsonl"
    flags = ["-m", tiny_target, "-d", tiny_near_copy, "--prompts", prompts, "--temperature", "1"]
    result = bench(*QUICKLY, *flags, "--lengths", "2,4", "--out", out, "--json")
    assert result.returncode == 0, result.stderr
    cells = json.loads(result.stdout)["targets"][0]["cells"]
    drafters = ("ngram", "draft-model", "ngram+draft-model")
    fixed = [f"{drafter} {length}" for drafter in drafters for length in (2, 4)]
    assert [cell["arm"] for cell in cells] == ["plain", *fixed, "auto"]
    assert all(cell["speedup"] is not None for cell in cells[1:])
    runs = [line for line in records(out) if line["record"] == "run"]
    assert {run["arm"] for run in runs if run["num_drafts"]} >= {"draft-model 2", "ngram+draft-model 4"}
    assert max(max(map(int, run["width_counts"])) for run in runs if run["arm"] == "draft-model 2") == 3
    assert all(run["num_drafts"] == 0 for run in runs if run["arm"] == "plain")


def test_cold_starts(tmp_path: Path, tiny_target: Path, prompts: Path) -> None:
    out = tmp_path / "out.jsonl"
    result = bench(*QUICKLY, "-m", tiny_target, "--prompts", prompts, "--cold", "--out", out)
    if "--cold is not possible here" in result.stderr:
        pytest.skip("This file system keeps its files in memory.")
    assert result.returncode == 0, result.stderr
    runs = [line for line in records(out) if line["record"] == "run"]
    assert all(run["resident_share"] <= 0.05 for run in runs)
    assert all(0 < run["open_seconds"] < run["ttft_seconds"] for run in runs)


def test_ctrl_c_keeps_what_there_is(tmp_path: Path, tiny_target: Path, prompts: Path) -> None:
    out = tmp_path / "out.jsonl"
    flags = ["--anyway", "--repetitions", "100000", "-n", "8", "-m", tiny_target, "--prompts", prompts]
    command = [*BENCH, *map(str, [*flags, "--out", out])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not (out.is_file() and out.read_text().count('"warm_up": false') > 5):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "own" in stdout
    assert all(line["record"] in ("session", "target", "run", "difference") for line in records(out))


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--scenario", "nonsense"], "no scenario"),
            (["--lengths", "three"], "no list of numbers"),
            (["--num-prompts", "0"], "at least 1"),
            (["--draft", "off"], "nothing to compare"),
            (["compare", "missing.jsonl", "missing.jsonl"], "cannot be read"),
        ],
    )
    def test_one_sentence(self, arguments: list[str], words: str) -> None:
        result = bench(*arguments)
        lines = result.stderr.strip().splitlines()
        assert result.returncode == 2, result.stderr
        assert lines[0].startswith("Error: ")
        assert words in lines[0]
        assert len(lines) <= 2

    def test_arms_and_targets(self, tiny_target: Path, tiny_recurrent: Path, prompts: Path) -> None:
        needs = bench("--anyway", "-m", tiny_target, "--prompts", prompts, "--arm", "draft-model 3")
        assert "needs a draft model" in needs.stderr
        cannot = bench("--anyway", "-m", tiny_recurrent, "--prompts", prompts)
        assert "nothing to compare" in cannot.stderr
        long = bench("--anyway", "-m", tiny_target, "-c", "32", "--prompts", prompts, "-n", "32")
        assert "Pass --context-tokens" in long.stderr

    def test_results_are_not_overwritten(self, tmp_path: Path, tiny_target: Path, prompts: Path) -> None:
        out = tmp_path / "out.jsonl"
        out.write_text("precious")
        result = bench("--anyway", "-m", tiny_target, "--prompts", prompts, "--out", out)
        assert "is there already" in result.stderr
        assert out.read_text() == "precious"

    def test_a_foreign_file_is_not_compared(self, prompts: Path) -> None:
        result = bench("compare", prompts, prompts)
        assert result.returncode == 2
        assert len(result.stderr.strip().splitlines()) <= 2


def test_requests_may_be_drafted_otherwise_and_begin_afresh(tiny_target: Path, tiny_near_copy: Path) -> None:
    params = RequestParams(SamplingParams(temperature=0), max_tokens=24)
    with Engine(str(tiny_target), draft=f"ngram+{tiny_near_copy}", draft_length=5) as engine:
        tokens = engine.vocabulary.tokenize("abcabcabc", add_special=True)
        texts = set()
        for fixed, drafter in (
            (FixedDraft(), "none"),
            (FixedDraft(("ngram",), 3), "ngram"),
            (FixedDraft(("draft-model",), 2, min_confidence=0.0), "draft-model"),
            (None, "ngram+draft-model"),
        ):
            engine.forget()
            generation = engine.generate(tokens, params, fixed)
            texts.add("".join(generation))
            reply = generation.reply
            assert reply.drafter == drafter
            assert reply.stats.reused_prompt_tokens == 0
            longest = 5 if fixed is None else fixed.length
            assert max(reply.stats.width_counts) <= longest + 1
            assert reply.plan.reason == ("off_by_user" if drafter == "none" else "on")
        assert len(texts) == 1
        engine.forget(keep_prompt=True)
        generation = engine.generate(tokens, params)
        assert "".join(generation) in texts
        assert generation.reply.stats.reused_prompt_tokens == len(tokens) - 1
