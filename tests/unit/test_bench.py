"""The arithmetic behind the tables of bench/."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench import builds, figures, suites, sweep
from bench.figures import Run
from homespec.benchmark.statistics import Amounts

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


def test_amounts() -> None:
    assert figures.amounts([RUN]).tolist() == [[8, 4]]
    assert figures.amounts([RUN], "decode").tolist() == [[5, 2]]


def test_figures_of_a_suite() -> None:
    assert suites.mean_acceptance_length([RUN]) == 1 + 5 / 2
    assert suites.count_lengths([RUN]) == {0: 1, 2: 1, 4: 1}
    # The first token comes from reading the prompt.
    assert suites.count_lengths([replace(RUN, widths=(0, 1, 5))]) == {0: 1, 4: 1}
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
