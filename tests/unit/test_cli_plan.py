from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from homespec.cli.main import cli
from homespec.errors import ConfigError


def plan(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["plan", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_the_table_shows_prices_verdict_and_reason(tiny_target: Path, tiny_near_copy: Path) -> None:
    output = plan(str(tiny_target), "-d", str(tiny_near_copy), "--memory", "4GiB")
    for words in ("plain", "n-gram", "draft", "KV cache", "needed", "chosen", "Speculation: on", "headroom"):
        assert words in output
    # But for the command, which stays on one line to be copied.
    assert max(len(line) for line in output.splitlines() if not line.startswith("  homespec ")) <= 80


def test_what_to_change_is_said(tiny_target: Path, tiny_near_copy: Path) -> None:
    output = plan(str(tiny_target), "-d", str(tiny_near_copy), "--memory", "365MB")
    assert "Speculation: off (would_page)" in output


def test_json_parts_sum_to_the_need(tiny_target: Path, tiny_near_copy: Path) -> None:
    output = json.loads(plan(str(tiny_target), "-d", str(tiny_near_copy), "--memory", "4GiB", "--json"))
    assert output["reason"] == "on"
    assert output["chosen"]["kind"] == "draft"
    for option in output["options"]:
        assert sum(option["parts"].values()) == option["needed_bytes"]


def test_a_corpus_is_shown_and_priced(
    tiny_target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("word " * 200)
    output = plan(str(tiny_target), "--memory", "4GiB", "--corpus", str(tmp_path / "a"))
    assert "corpus  1 text file, 1 kB" in output
    assert "corpus index" in output
    assert "corpus" not in plan(str(tiny_target), "--memory", "4GiB")
    chosen = json.loads(plan(str(tiny_target), "--json", "--corpus", str(tmp_path)))["chosen"]
    monkeypatch.setenv("HOMESPEC_CORPUS", f"{tmp_path / 'a'}:{tmp_path / 'b'}")
    assert json.loads(plan(str(tiny_target), "--json"))["chosen"] == chosen
    assert chosen["parts"]["corpus_bytes"] == 1002 * 28


@pytest.mark.parametrize(
    "flags", [["--memory", "much"], ["--context-tokens", "many"], ["--corpus", "/nowhere"]]
)
def test_values_that_are_none(flags: list[str], tiny_target: Path) -> None:
    with pytest.raises(ConfigError):
        plan(str(tiny_target), *flags)
