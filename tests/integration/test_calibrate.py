"""`homespec calibrate` as a user meets it, in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import SMOLLM2, require

WIDTHS = [*range(1, 17), 20, 24, 28, 32, 48, 64]


def calibrate(state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "homespec", "calibrate", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "HOMESPEC_STATE": str(state)},
        check=False,
    )


def output(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert result.returncode == 0, result.stderr
    value: dict[str, Any] = json.loads(result.stdout)
    return value


@pytest.mark.model
def test_measured_stored_and_shown(tmp_path: Path) -> None:
    require(SMOLLM2)
    measured = output(calibrate(tmp_path, "-d", "off", "-c", "512", "--json"))
    target = measured["target"]["target"]
    assert target["curve"]["widths"][:4] == [1, 2, 3, 4]
    assert target["curve"]["depths_tokens"][0] <= 64
    assert all(seconds > 0 for seconds in target["curve"]["shallow_seconds"])
    assert target["prefill_tokens_per_second"] > 0
    assert {result["width"] for result in target["width_equality"]} >= {2, 3, 4}
    assert measured["draft"] is None
    assert len(list((tmp_path / "calibration").iterdir())) == 1

    shown = output(calibrate(tmp_path, "-d", "off", "-c", "512", "--show", "--json"))
    assert shown["target"] == measured["target"]
    assert shown["stale"] == []

    table = calibrate(tmp_path, "-d", "off", "--show").stdout
    assert max(map(len, table.splitlines())) <= 80
    for words in ("width", "t(w)", "same rows", "Plain: ", "Widths proven"):
        assert words in table

    stale = calibrate(tmp_path, "-d", "off", "--show", "--threads", "1", "--kv", "q8_0").stdout
    assert "Nothing is stored" in stale
    assert "now 1" in stale
    assert "KV cache: f16, now q8_0" in stale


def test_a_draft_model_is_calibrated_as_well(tmp_path: Path, tiny_target: Path, tiny_near_copy: Path) -> None:
    measured = output(calibrate(tmp_path, str(tiny_target), "-d", str(tiny_near_copy), "--json"))
    assert measured["target"]["target"]["curve"]["widths"] == WIDTHS
    assert measured["draft"]["drafter"]["seconds_per_token"] > 0
    assert measured["draft"]["target"] is None
    assert len(list((tmp_path / "calibration").iterdir())) == 2
    table = calibrate(tmp_path, str(tiny_target), "-d", str(tiny_near_copy), "--show").stdout
    assert "Draft model tiny-near-copy.gguf" in table


def test_the_thorough_form(tmp_path: Path, tiny_target: Path) -> None:
    measured = output(calibrate(tmp_path, str(tiny_target), "-d", "off", "--thorough", "--json"))
    assert measured["target"]["thorough"]
    assert measured["target"]["target"]["curve"]["widths"] == WIDTHS


def test_a_model_that_cannot_roll_back(tmp_path: Path, tiny_recurrent: Path) -> None:
    result = calibrate(tmp_path, str(tiny_recurrent))
    assert result.returncode == 2
    assert result.stderr.splitlines()[-2].startswith("Error: There is nothing to calibrate: ")
    result = calibrate(tmp_path, str(tiny_recurrent), "-d", "off")
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.rglob("*.json"))
