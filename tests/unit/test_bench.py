"""The arithmetic behind the tables of bench/."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench import builds, figures, suites, sweep
from bench.figures import Amounts, Run
from homespec.runtime.state import state_directory

RUN = Run(
    suite="s",
    number=0,
    arm="speculative",
    tokens=8,
    seconds=4.0,
    decode_tokens=5,
    decode_seconds=2.0,
    prefill_seconds=1.0,
    draft_seconds=0.5,
    verify_seconds=2.0,
    sample_seconds=0.1,
    text_kind="code",
    finish_reason="length",
    token_ids=(1, 2, 3, 4, 5, 6, 7, 8),
    widths=(3, 1, 5),
    drafted=(2, 0, 4),
    accepted=(2, 0, 3),
    drafters=("ngram", "none", "draft-model"),
)


def pairs(*rows: tuple[float, float]) -> Amounts:
    return np.array(rows)


def test_a_ratio_is_one_of_sums_and_its_interval_holds_it() -> None:
    ours, base = pairs((10, 1), (10, 4)), pairs((10, 2), (10, 6))
    ratio = figures.compare(ours, base, np.random.default_rng(0))
    assert ratio.value == pytest.approx((20 / 5) / (20 / 8))
    low, high = ratio.interval()
    # All prompts the first one, or all the second.
    assert (low, high) == pytest.approx((6 / 4, 2.0))


def test_an_arm_against_itself_has_no_interval() -> None:
    same = pairs((10, 1), (30, 4), (5, 2))
    assert figures.compare(same, same, np.random.default_rng(0)).interval() == (1.0, 1.0)


def test_geometric_mean() -> None:
    generator = np.random.default_rng(0)
    ratios = [figures.compare(pairs((gain, 1)), pairs((1, 1)), generator) for gain in (2, 8)]
    mean = figures.geometric_mean(ratios)
    assert mean.value == pytest.approx(4)
    assert mean.interval() == pytest.approx((4, 4))


def test_amounts() -> None:
    assert figures.amounts([RUN]).tolist() == [[8, 4]]
    assert figures.amounts([RUN], "decode").tolist() == [[5, 2]]


def test_fresh_engines_see_calibrations_and_no_experience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOMESPEC_STATE", str(tmp_path))
    for name in ("calibration", "experience"):
        (tmp_path / name).mkdir()
    with figures.experience(fresh=True):
        assert [entry.name for entry in state_directory().iterdir()] == ["calibration"]
    assert state_directory() == tmp_path


def test_figures_of_a_suite() -> None:
    assert suites.mean_acceptance_length([RUN]) == 1 + 5 / 2
    assert suites.count_lengths([RUN]) == {0: 1, 2: 1, 4: 1}
    assert suites.count_drafters([RUN, RUN]) == {"ngram": 2, "draft-model": 2}
    assert suites.time_shares([RUN])["other"] == pytest.approx(0.1)
    assert suites.num_equal_texts([RUN, RUN], [RUN, replace(RUN, token_ids=(1,))]) == 1


def test_a_setting_chosen_on_other_prompts_may_lose() -> None:
    # Each is the best on one prompt by so much that it is the best of the prompts that are left, too.
    settings = {"one": pairs((10, 1), (10, 10)), "other": pairs((10, 10), (10, 2))}
    honest = sweep.choose_on_others(settings)
    assert sweep.fastest(settings) == "one"
    assert honest is not None
    assert honest.tolist() == [[10, 10], [10, 10]]
    assert sweep.choose_on_others({"one": pairs((10, 1))}) is None


def test_plain_counts_as_a_fixed_setting() -> None:
    runs = {
        "plain": [RUN, RUN],
        "ngram 2": [replace(RUN, seconds=5.0)] * 2,
        "auto": [replace(RUN, seconds=4.4)] * 2,
    }
    outcome = sweep.judge(runs, np.random.default_rng(0))
    assert outcome.best == "plain"
    assert outcome.auto_to_best.value == pytest.approx(4 / 4.4)
    assert outcome.settings["ngram 2"].value == pytest.approx(4 / 5)


def test_arms() -> None:
    names = [str(arm) for arm in sweep.make_arms([1, 4], has_draft_model=True)]
    drafters = ("ngram", "model", "ngram+model")
    assert names == ["plain", *(f"{drafter} {length}" for drafter in drafters for length in (1, 4)), "auto"]


def test_a_build_with_slow_plain_decoding_does_not_look_good() -> None:
    first, other = {1: [1.0], 4: [2.0]}, {1: [2.0], 4: [2.0]}
    lines = builds.yield_table([first, other]).splitlines()
    assert lines[-2].split() == ["best", "2.00", "2.00", "4.00", "2.00"]
    assert lines[-1].split() == ["at", "4", "4", "4", "4"]


def test_variants(tmp_path: Path) -> None:
    (tmp_path / "libllama.so").touch()
    assert builds.find_variant(str(tmp_path)).libraries == tmp_path
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert builds.find_variant(str(tmp_path)).libraries is None
