"""Versions of a target side by side."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from homespec.calibration.costs import DrafterCosts, TargetCosts
from homespec.calibration.curve import CostCurve, RunningCurve
from homespec.calibration.store import Calibration, make_key, store_calibration
from homespec.catalog.entries import MadeSource
from homespec.catalog.registry import register
from homespec.catalog.store import resolve
from homespec.cli.main import cli
from homespec.drafting.ledger import Gain
from homespec.engine import comparing
from homespec.engine.comparing import Version, advise, compare
from homespec.engine.experience import Experience
from homespec.engine.forecast import remembered_calibrations
from homespec.engine.making import make_quantized
from homespec.engine.preparing import prepare
from homespec.engine.settings import EngineSettings
from homespec.errors import ConfigError
from tests.support.own_models import add_tiny_pair

WIDTHS = tuple(range(1, 17))
CPU = frozenset({"avx2", "f16c"})


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Neither models, entries nor measurements of the user; gives the models directory."""
    models = tmp_path / "models"
    models.mkdir()
    monkeypatch.setenv("HOMESPEC_MODELS", str(models))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOMESPEC_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(comparing, "cpu_features", lambda: CPU)
    return models


def calibrate(
    path: Path, seconds: float, *, kv_type: str = "f16", draft_seconds: float | None = None
) -> None:
    """Stores made-up costs: decodes that take the same time whatever their width."""
    key = make_key(path, num_threads=None, num_batch_threads=None, kv_type=kv_type, repack=True, mmap=True)
    flat = (seconds,) * len(WIDTHS)
    target = TargetCosts(CostCurve(WIDTHS, (64, 64), flat, flat), 10.0, ())
    drafter = DrafterCosts(draft_seconds, 2 * draft_seconds, 10.0) if draft_seconds else None
    store_calibration(Calibration(key, path.name, "F32", 1.0, False, target, drafter))


def compare_files(*paths: Path, **settings: object) -> list[Version]:
    first, *others = map(str, paths)
    found = replace(EngineSettings(first, memory_bytes=4 << 30), **settings)  # type: ignore[arg-type]
    return compare(found, others).versions


def plan(*arguments: str) -> str:
    return CliRunner().invoke(cli, ["plan", *arguments], catch_exceptions=False).output


def version(
    name: str, bits: float, gigabytes: int, plain: float, drafting: float, **others: object
) -> Version:
    fields = {
        "name": name,
        "quantization": name,
        "bits_per_weight": bits,
        "lossy_source": None,
        "plain_bytes": gigabytes << 30,
        "drafting_bytes": (gigabytes << 30) + (1 << 29),
        "fits": True,
        "drafting_fits": True,
        "prompt_speed": 50.0,
        "plain_speed": plain,
        "drafting_speeds": {"code": drafting, "chat": drafting},
        "seen": ("code", "chat"),
        "is_measured": True,
        "is_present": True,
        "draft": "auto",
        "command": None,
    }
    return Version(**{**fields, **others})  # type: ignore[arg-type]


SMALL = version("Q4_K_M", 5, 1, 11.5, 11.6)


def test_a_user_with_memory_to_spare_is_told() -> None:
    text = advise([SMALL, version("F16", 16, 4, 5.4, 12.7)])
    assert text.startswith(
        "For code and chat, F16 is the fastest here: about 12.7 tokens/s with drafts, against 11.5 of Q4_K_M"
    )
    assert "at 4.5 times the memory" in text
    text = advise([SMALL, version("F16", 16, 4, 5.4, 11.4)])
    assert "F16 with drafts is about as fast (11.4) as Q4_K_M plainly, at 4.5 times the memory" in text
    assert "with more fidelity" in text


@pytest.mark.parametrize("speed", [11.4, 12.7])
def test_what_is_made_from_a_lossy_file_is_no_more_faithful(speed: float) -> None:
    text = advise([SMALL, version("F16", 16, 4, 5.4, speed, lossy_source="Q4_K_M")])
    assert "made from Q4_K_M, it has no more fidelity" in text
    assert "more fidelity, unless" not in text


def test_what_is_faster_and_smaller_is_advised_without_a_price() -> None:
    text = advise([SMALL, version("F16", 16, 4, 5.4, 8.0)])
    assert text == "For code and chat, Q4_K_M is the fastest here: about 11.5 tokens/s plainly."


def test_what_is_best_may_differ_by_kind_of_text() -> None:
    large = version("F16", 16, 4, 5.4, 0.0, drafting_speeds={"code": 15.0, "chat": 8.0}, seen=("chat",))
    code, chat = advise([SMALL, large]).split(" For chat, ")
    # What was only guessed is not called about so fast.
    assert code.startswith("For code, F16 is the fastest here: perhaps 15.0 tokens/s with drafts")
    assert chat == "Q4_K_M is the fastest here: about 11.5 tokens/s plainly."


def test_nobody_pays_for_what_nobody_notices() -> None:
    text = advise([SMALL, version("F16", 16, 4, 5.4, 11.7)])
    assert "Q4_K_M is the fastest here" in text
    assert "F16 is the fastest" not in text
    assert "F16 with drafts is about as fast (11.7)" in text


@pytest.mark.parametrize("unfit", [{"fits": False}, {"is_measured": False}])
def test_what_has_no_room_or_was_not_measured_is_not_advised(unfit: dict[str, bool]) -> None:
    slow = version("Q8_0", 8, 2, 6.0, 8.0)
    text = advise([SMALL, slow, version("F16", 16, 4, 5.4, 99.0, **unfit)])
    assert "F16" not in text
    assert "Q8_0" not in text
    assert "F16" not in advise([SMALL, version("F16", 16, 4, 5.4, 99.0, **unfit)])


def test_advice_where_there_is_nothing_to_choose() -> None:
    assert "calibrate" in advise([replace(SMALL, is_measured=False)])
    assert "None of them fits" in advise([replace(SMALL, fits=False)])
    assert advise([SMALL]) == "For code and chat, only Q4_K_M was measured here: about 11.5 tokens/s plainly."


def test_files_are_compared_before_anything_was_measured(tiny_target: Path, tiny_near_copy: Path) -> None:
    arguments = [str(tiny_target), "--compare", "--with", str(tiny_near_copy), "--memory", "4GiB"]
    versions = json.loads(plan(*arguments, "--json"))["versions"]
    present = {found["name"] for found in versions if found["is_present"]}
    assert present == {tiny_target.stem, tiny_near_copy.stem}
    needed = [found["plain_bytes"] for found in versions]
    assert needed == sorted(needed)
    assert not any(found["is_measured"] or found["plain_speed"] for found in versions)
    lines = plan(*arguments).splitlines()
    # But for the commands, which stay on one line to be copied.
    assert max(len(line) for line in lines if not line.startswith("  homespec ")) <= 80


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, ""),
        ({"kv_type": "q8_0"}, " --kv q8_0"),
        ({"mmap": False, "repack": False}, " --no-mmap --no-repack"),
    ],
)
def test_the_command_for_a_file_measures_that_file_as_it_is_planned(
    settings: dict[str, object], options: str, tiny_target: Path
) -> None:
    path = tiny_target.with_name("tiny target.gguf")
    shutil.copy(tiny_target, path)
    commands = {found.command for found in compare_files(path, **settings) if found.is_present}
    assert commands == {f"homespec calibrate '{path}'{options}"}
    calibrate(path, 0.1)
    assert (None in {found.command for found in compare_files(path, **settings)}) == (not settings)


def test_a_measured_version_gives_its_speed_and_the_others_a_guess_by_size(tiny_target: Path) -> None:
    calibrate(tiny_target, 0.1)
    found = {one.quantization: one for one in compare_files(tiny_target)}
    assert found["F32"].plain_speed == pytest.approx(10.0)
    assert found["F32"].is_measured
    assert [found[name].prompt_speed for name in ("F32", "F16")] == [10.0, None]
    assert found["F32"].command is None
    half, byte = found["F16"], found["Q8_0"]
    assert half.command == f"homespec models quantize {tiny_target} F16"
    assert not half.is_measured
    assert not half.drafting_speeds
    assert half.plain_speed == pytest.approx(10.0 * 32 / 16, rel=0.2)
    assert half.plain_speed is not None
    assert byte.plain_speed is not None
    assert byte.plain_speed > half.plain_speed
    output = plan(str(tiny_target), "--compare", "--memory", "4GiB")
    assert "~ about: plain by size" in output
    assert f"only {tiny_target.stem} was measured here: about 10.0 tokens/s" in output


def test_a_draft_model_without_measurements_gives_no_speed(tiny_target: Path, tiny_near_copy: Path) -> None:
    calibrate(tiny_target, 0.1)
    before = compare_files(tiny_target, draft=str(tiny_near_copy))[-1]
    assert before.plain_speed == pytest.approx(10.0)
    assert not before.drafting_speeds
    assert before.command == f"homespec calibrate {tiny_target} --draft {tiny_near_copy}"
    assert before.drafting_bytes is not None
    assert before.drafting_bytes > before.plain_bytes
    calibrate(tiny_near_copy, 0.01, draft_seconds=0.01)
    after = compare_files(tiny_target, draft=str(tiny_near_copy))[-1]
    assert after.command is None
    assert after.drafting_speeds["code"] == after.drafting_speeds["chat"] > 10.0
    assert after.seen == ()


def test_what_earlier_replies_yielded_counts_however_their_tokens_were_chosen(tiny_target: Path) -> None:
    calibrate(tiny_target, 0.1)
    settings = EngineSettings(str(tiny_target), memory_bytes=4 << 30)
    (known,) = remembered_calibrations(prepare(settings))
    assert known is not None
    assert known.target is not None
    gains = {"code": Gain(100.0, 50.0), "code, sampled": Gain(300.0, 350.0), "maths": Gain(900.0, 90.0)}
    Experience([known]).save(RunningCurve(known.target.curve), {}, gains)
    found = next(one for one in compare(settings, []).versions if one.is_present)
    assert found.seen == ("code",)
    assert found.drafting_speeds == {"code": pytest.approx(10.0), "chat": pytest.approx(10.0)}
    output = plan(str(tiny_target), "--compare", "--memory", "4GiB")
    assert "~10.0" in output
    assert "once it has been read" in output.replace("\n", " ")


@pytest.mark.parametrize(("draft_seconds", "pays"), [(0.01, True), (0.1, False)])
def test_a_file_of_one_s_own_gets_the_pair_s_draft_model_unless_that_cannot_pay(
    draft_seconds: float,
    pays: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tiny_target: Path,
    tiny_near_copy: Path,
) -> None:
    models = add_tiny_pair(tmp_path, monkeypatch, tiny_target, tiny_near_copy)
    own = Path(shutil.copy(tiny_target, tmp_path / "own.gguf"))
    calibrate(own, 0.1)
    calibrate(models / "tiny-draft.gguf", 0.1, draft_seconds=draft_seconds)
    found = next(one for one in compare_files(Path("tiny"), own) if one.name == "own")
    assert found.draft == ("ngram+tiny-draft" if pays else "auto")
    assert (found.drafting_speeds["code"] > 11) == pays


def test_what_does_not_fit_has_a_price_but_no_speed(tiny_target: Path) -> None:
    calibrate(tiny_target, 0.1)
    versions = compare_files(tiny_target, memory_bytes=300 << 20)
    assert not any(found.fits or found.plain_speed or found.drafting_speeds for found in versions)
    assert not any(found.prompt_speed for found in versions)
    assert all(found.plain_bytes for found in versions)
    output = plan(str(tiny_target), "--compare", "--memory", "300MiB")
    assert "* has no room" in output
    assert "None of them fits" in output


def test_what_was_made_and_what_it_was_made_from_find_each_other(tiny_target: Path, own_home: Path) -> None:
    source = own_home / "source.gguf"
    shutil.copy(tiny_target, source)
    first = make_quantized(str(source), "Q8_0", None)
    second = make_quantized(first.entry.name, "F16", None)
    for target in (str(source), str(first.path), first.entry.name, second.entry.name):
        versions = compare_files(Path(target))
        lossy = {found.name: found.lossy_source for found in versions if found.is_present}
        assert lossy == {"source": None, first.entry.name: None, second.entry.name: "Q8_0"}
        # Smaller ones come from the file that has lost nothing.
        made = {found.name: found.command for found in versions if not found.is_present}
        assert made == {"Q4_K_M": f"homespec models quantize {source} Q4_K_M"}


def test_what_is_made_of_a_lossy_file_is_larger(tiny_target: Path, own_home: Path) -> None:
    made = make_quantized(str(tiny_target), "Q8_0", own_home / "alone.gguf")
    shutil.move(made.path, own_home / "moved.gguf")
    versions = compare_files(own_home / "moved.gguf")
    assert {found.name: found.lossy_source for found in versions} == {"moved": None, "F16": "Q8_0"}


def test_bf16_may_be_made_where_the_cpu_is_fast_at_it(
    tiny_target: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = make_quantized(str(tiny_target), "F16", own_home / "half.gguf").path
    byte = make_quantized(str(tiny_target), "Q8_0", own_home / "byte.gguf").path
    shutil.move(byte, own_home / "alone.gguf")
    for path in (half, own_home / "alone.gguf"):
        assert "BF16" not in {found.name for found in compare_files(path)}
        with monkeypatch.context() as patched:
            patched.setattr(comparing, "cpu_features", lambda: CPU | {"avx512_bf16"})
            found = next(one for one in compare_files(path) if one.name == "BF16")
            assert found.command == f"homespec models quantize {path} BF16"
    made = make_quantized(str(half), "BF16", own_home / "brain.gguf").path
    monkeypatch.setattr(comparing, "cpu_features", lambda: CPU | {"avx512_bf16"})
    assert [found.is_present for found in compare_files(made) if found.quantization == "BF16"] == [True]


def test_entries_that_lead_in_a_circle(tiny_target: Path, own_home: Path) -> None:
    made = make_quantized(str(tiny_target), "Q8_0", None)
    shutil.copy(tiny_target, own_home / "other.gguf")
    for name, source in ((made.entry.name, "other"), ("other", made.entry.name)):
        register(replace(made.entry, name=name, sources=(MadeSource(source, "0" * 64, "recipe", "tool"),)))
    assert resolve("other").entry is not None
    assert "other" in {found.name for found in compare_files(Path("other"))}


def test_another_model_is_no_version(tiny_target: Path, tiny_stranger: Path) -> None:
    with pytest.raises(ConfigError, match="another model"):
        compare_files(tiny_target, tiny_stranger)


def test_a_version_to_compare_with_needs_a_comparison(tiny_target: Path) -> None:
    with pytest.raises(ConfigError):
        plan(str(tiny_target), "--with", "x")
