"""The plan under a limit that the kernel enforces, just above and just below what a draft model needs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from homespec.catalog.store import resolve
from homespec.telemetry.machine import LEAST_MARGIN_BYTES
from tests.integration.conftest import SMOLLM2, require
from tests.support.control_group import memory_limit, run_in

HOMESPEC = [sys.executable, "-m", "homespec"]
TARGET, DRAFT = "qwen2.5-coder-1.5b-instruct", "qwen2.5-coder-0.5b-instruct"
SLACK_BYTES = 60_000_000  # between the limits and the need: what the interpreter has taken before it plans


def plan(target: str, *flags: str) -> dict[str, Any]:
    with memory_limit(16 << 30) as group:
        result = run_in(group, [*HOMESPEC, "plan", target, *flags, "--json"])
    output: dict[str, Any] = json.loads(result.stdout)
    return output


def run(limit_bytes: int, target: str, *flags: str) -> tuple[dict[str, Any], str]:
    with memory_limit(limit_bytes) as group:
        command = [
            *HOMESPEC,
            "run",
            "-m",
            target,
            *flags,
            "-n",
            "24",
            "--temperature",
            "0",
            "--json",
            "Count.",
        ]
        result = run_in(group, command)
    assert result.returncode == 0, result.stderr
    reply: dict[str, Any] = json.loads(result.stdout)
    return reply, result.stderr


@pytest.fixture(params=["smollm2", "pair"])
def models(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    if request.param == "pair":
        require(TARGET, DRAFT)
        return TARGET, DRAFT
    require(SMOLLM2)
    # A second name for the same file: as its own draft model.
    link = tmp_path / "draft.gguf"
    link.symlink_to(resolve(SMOLLM2).path)
    return SMOLLM2, str(link)


@pytest.mark.model
def test_a_draft_model_is_loaded_only_where_it_fits(models: tuple[str, str]) -> None:
    target, draft = models
    flags = [
        "-d",
        draft,
        "-c",
        "1024",
        "--draft-length",
        "5",
    ]  # too short for a window to make a draft model cheaper
    needed = {option["kind"]: option["needed_bytes"] for option in plan(target, *flags)["options"]}
    margin = max(LEAST_MARGIN_BYTES, needed["draft"] // 8)

    above, _ = run(needed["draft"] + margin + SLACK_BYTES, target, *flags)
    assert above["plan"]["reason"] == "on"
    assert above["stats"]["num_drafts"] > 0

    below, stderr = run(needed["draft"] + LEAST_MARGIN_BYTES - SLACK_BYTES, target, *flags)
    assert below["plan"]["reason"] == "would_page"
    assert below["stats"]["num_drafts"] == 0
    assert below["drafter"] == "none"
    assert below["stats"]["completion_tokens"] > 0
    assert "spec: off (would_page: " in stderr

    forced, stderr = run(needed["draft"] + LEAST_MARGIN_BYTES - SLACK_BYTES, target, *flags, "--force")
    assert forced["plan"]["reason"] == "on"
    assert "Forced against the plan" in forced["plan"]["explanation"]
    assert forced["stats"]["num_drafts"] > 0


@pytest.mark.model
def test_a_target_that_cannot_run_is_refused_before_it_is_loaded() -> None:
    require(SMOLLM2)
    with memory_limit(LEAST_MARGIN_BYTES + 265_000_000) as group:
        result = run_in(group, [*HOMESPEC, "run", "-m", SMOLLM2, "-c", "8192", "Hi"])
    assert result.returncode == 1
    assert result.stderr.startswith("Error: smollm2-135m-instruct cannot run here: ")
    assert "Pass --context-tokens" in result.stderr
    assert "--force" in result.stderr
