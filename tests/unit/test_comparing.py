"""Versions of a target side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from homespec.cli.main import cli
from homespec.engine.comparing import Version, advise
from homespec.errors import ConfigError


def version(
    name: str, bits: float, gigabytes: int, plain: float, drafting: float, **others: object
) -> Version:
    fields = {
        "name": name,
        "quantization": name,
        "bits_per_weight": bits,
        "lossy_source": None,
        "plain_bytes": gigabytes << 30,
        "drafting_bytes": (gigabytes << 30) + 1,
        "fits": True,
        "plain_speed": plain,
        "drafting_speed": drafting,
        "is_measured": True,
        "is_present": True,
    }
    return Version(**{**fields, **others})  # type: ignore[arg-type]


SMALL = version("Q4_K_M", 5, 1, 11.5, 11.6)


def test_a_user_with_memory_to_spare_is_told() -> None:
    text = advise([SMALL, version("F16", 16, 4, 5.4, 12.7)])
    assert text.startswith("F16 is the fastest here: about 12.7 tokens/s with drafts.")
    text = advise([SMALL, version("F16", 16, 4, 5.4, 11.4)])
    assert "F16 with drafts reaches 11.4, no less than Q4_K_M plainly, for 4.0 times the memory" in text
    assert "more fidelity" in text


def test_what_is_made_from_a_lossy_file_is_no_more_faithful() -> None:
    text = advise([SMALL, version("F16", 16, 4, 5.4, 11.4, lossy_source="Q4_K_M")])
    assert "no more fidelity" in text


def test_what_has_no_room_or_was_not_measured_is_not_advised() -> None:
    slow = version("Q8_0", 8, 2, 6.0, 8.0)
    for unfit in ({"fits": False}, {"is_measured": False}):
        text = advise([SMALL, slow, version("F16", 16, 4, 5.4, 99.0, **unfit)])
        assert "F16" not in text
        assert "Q8_0" not in text
    assert "calibrate" in advise([version("F16", 16, 4, 5.4, 99.0, is_measured=False)])


def test_files_are_compared_before_anything_was_measured(
    tiny_target: Path, tiny_near_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOMESPEC_STATE", str(tmp_path))
    arguments = ["plan", str(tiny_target), "--compare", "--with", str(tiny_near_copy), "--memory", "4GiB"]
    result = CliRunner().invoke(cli, [*arguments, "--json"], catch_exceptions=False)
    versions = json.loads(result.output)["versions"]
    assert {found["name"] for found in versions if found["is_present"]} == {
        tiny_target.stem,
        tiny_near_copy.stem,
    }
    needed = [found["plain_bytes"] for found in versions]
    assert needed == sorted(needed)
    assert not any(found["is_measured"] for found in versions)
    output = CliRunner().invoke(cli, arguments, catch_exceptions=False).output
    assert f"homespec calibrate {tiny_target.stem}" in output
    assert max(map(len, output.splitlines()[:6])) <= 80


def test_a_version_to_compare_with_needs_a_comparison(tiny_target: Path) -> None:
    with pytest.raises(ConfigError):
        CliRunner().invoke(cli, ["plan", str(tiny_target), "--with", "x"], catch_exceptions=False)
