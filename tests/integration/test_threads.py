"""Numbers of threads are measured, stored, and used by whoever opens the model afterwards."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click.testing
import llama_cpp
import pytest

from homespec.calibration.fingerprint import fingerprint
from homespec.calibration.threads import ThreadComparison, ThreadTimes, load_comparison, store_comparison
from homespec.cli import doctor
from homespec.cli.calibrate import command
from homespec.engine import calibrating
from homespec.engine.calibrating import calibration_keys, stored_calibrations
from homespec.engine.engine import Engine
from tests.integration.conftest import SMOLLM2, require

ONE_IS_FASTER = ThreadComparison((ThreadTimes(2, 2.0, 2.0), ThreadTimes(1, 1.0, 2.0)))


@pytest.fixture(autouse=True)
def _two_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOMESPEC_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(calibrating, "thread_candidates", lambda: (2, 1))
    monkeypatch.setattr(calibrating, "is_busy", lambda: False)


def used(engine: Engine) -> tuple[int, int]:
    """The numbers of threads that llama.cpp has for the target; the key must name the same."""
    handle = engine._opened.target.context._handle
    threads = llama_cpp.llama_n_threads(handle), llama_cpp.llama_n_threads_batch(handle)
    key = calibration_keys(engine.preparation)[0]
    assert (key.num_threads, key.num_batch_threads) == threads
    return threads


def no_measurement(_share: float) -> None:
    raise AssertionError("It was measured already.")


@pytest.mark.model
def test_the_first_use_compares_and_later_ones_use_the_choice() -> None:
    require(SMOLLM2)
    with Engine(SMOLLM2, draft="ngram", context_tokens=256) as engine:
        path = engine.preparation.target.model.path
        comparison = load_comparison(fingerprint(path))
        assert comparison is not None
        assert [times.num_threads for times in comparison.times] == [2, 1]
        assert set(comparison.choice) <= {1, 2}
        assert used(engine) == comparison.choice
    with Engine(SMOLLM2, draft="ngram", context_tokens=256, progress=no_measurement) as engine:
        assert used(engine) == comparison.choice
        assert engine.plan.speculation
    with Engine(SMOLLM2, draft="off", num_threads=2) as engine:
        assert used(engine) == (2, 2)


def test_nothing_is_compared_unasked_while_others_keep_the_cores_busy(
    tiny_target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrating, "is_busy", lambda: True)
    with Engine(str(tiny_target), draft="ngram") as engine:
        assert used(engine)
        assert all(stored_calibrations(engine.preparation))
    assert load_comparison(fingerprint(tiny_target)) is None


def test_a_stored_choice_is_opened_and_measured_with(tiny_target: Path, tiny_near_copy: Path) -> None:
    store_comparison(fingerprint(tiny_target), ONE_IS_FASTER)
    with Engine(str(tiny_target), draft="off") as engine:
        assert used(engine) == (1, 2)
    with Engine(str(tiny_target), draft=f"ngram+{tiny_near_copy}") as engine:
        assert used(engine) == (1, 2)
        assert all(stored_calibrations(engine.preparation))
        assert load_comparison(fingerprint(tiny_target)) == ONE_IS_FASTER


def test_a_state_directory_that_cannot_be_written_leaves_the_usual_choice(
    tiny_target: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").write_text("a file, no directory")
    with Engine(str(tiny_target), draft="ngram", num_batch_threads=1) as engine:
        usual = engine._opened.target.context
        assert used(engine) == (llama_cpp.llama_n_threads(usual._handle), 1)
    assert "The best number of threads could not be stored" in caplog.text


def test_calibrate_and_doctor_say_why(tiny_target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = click.testing.CliRunner()
    arguments = [str(tiny_target), "-d", "off"]
    measured = runner.invoke(command, [*arguments, "--thorough", "--json"], catch_exceptions=False)
    threads = json.loads(measured.stdout)["threads"]
    assert [times["num_threads"] for times in threads["times"]] == [2, 1]
    assert {threads["num_threads"], threads["num_batch_threads"]} <= {1, 2}
    shown = " ".join(runner.invoke(command, [*arguments, "--show"], catch_exceptions=False).stdout.split())
    assert f"Threads, {threads['reason']}." in shown
    asked = runner.invoke(command, [*arguments, "--show", "--json", "-t", "2"], catch_exceptions=False)
    assert json.loads(asked.stdout)["threads"] is None

    monkeypatch.setenv("HOMESPEC_MODELS", str(tiny_target.parent))
    lines = runner.invoke(doctor.command, [], catch_exceptions=False).stdout
    assert re.search(r"  threads for tiny-target: [12], in batches [12] \(measured: ", lines)
