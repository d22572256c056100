"""One arm against plain decoding: in one scenario (a cell of the tables), and over all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from homespec.benchmark import statistics
from homespec.benchmark.figures import Part, amounts, lines_of
from homespec.benchmark.results import DifferenceLine, Results, RunLine, TargetLine
from homespec.benchmark.statistics import Amounts, Ratio

BASELINE = "plain"
AUTO = "auto"

Verdict = Literal["faster", "slower", "unclear"]

# An arm with a fixed drafter that was dropped on the way did not do what its name says.
_DROPPED = ("would_page", "drafter_failed", "cannot_roll_back")


class Remark(NamedTuple):
    """Something to know about a cell, and the lines that say it."""

    text: str
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The speed of an arm over that of plain decoding, on the same prompts.

    Attributes:
        ratio: above 1 the arm is faster.
        num_prompts: how many were answered by both.
        lines: of both arms' replies.
        scenarios: whose ratios went into it; how says in which way.
        how: "" for the ratio of one scenario.
    """

    ratio: Ratio
    num_prompts: int
    lines: tuple[int, ...]
    scenarios: tuple[str, ...]
    how: str = ""

    @property
    def value(self) -> float:
        """The ratio itself."""
        return self.ratio.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of 90%; None where a single prompt cannot tell how prompts differ."""
        return self.ratio.interval()

    @property
    def verdict(self) -> Verdict:
        """What the interval allows to say."""
        if self.interval is None or self.interval[0] <= 1 <= self.interval[1]:
            return "unclear"
        return "faster" if self.value > 1 else "slower"


@dataclass(frozen=True, slots=True)
class Cell:
    """One arm in one scenario.

    Attributes:
        runs: its measured replies, without warm-ups.
        whole, decode: against plain decoding; None for plain itself, and where `refusal` says why.
        refusal: why no speedup is given.
        remarks: what else to know.
    """

    scenario: str
    arm: str
    runs: tuple[RunLine, ...]
    whole: Comparison | None = None
    decode: Comparison | None = None
    refusal: Remark | None = None
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetFigures:
    """Everything about one target.

    Attributes:
        line: what was planned; None if the run ended before.
        scenarios, arms: in their order in the file; plain first.
        cells: by scenario and arm, all of them.
        overall: arm -> its whole replies over all scenarios that have a ratio.
        runs: without warm-ups.
        warm_up_lines: replies that do not count.
        differences: of all arms.
    """

    name: str
    line: TargetLine | None
    scenarios: tuple[str, ...]
    arms: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]
    overall: Mapping[str, Comparison]
    runs: tuple[RunLine, ...]
    warm_up_lines: tuple[int, ...]
    differences: tuple[DifferenceLine, ...]

    def runs_of(self, arm: str) -> list[RunLine]:
        """In all scenarios."""
        return [run for run in self.runs if run.arm == arm]


def compare_targets(results: Results) -> list[TargetFigures]:
    """Every target of a results file, in its order."""
    names = dict.fromkeys([*(line.target for line in results.targets), *(run.target for run in results.runs)])
    return [_compare_target(results, name) for name in names]


def _compare_target(results: Results, name: str) -> TargetFigures:
    every = [run for run in results.runs if run.target == name]
    runs = [run for run in every if not run.warm_up]
    scenarios = tuple(dict.fromkeys(run.scenario for run in runs))
    arms = tuple(dict.fromkeys([BASELINE, *results.session.arms, *(run.arm for run in every)]))
    # One generator for all, so that scenarios are resampled independently of each other.
    generator = np.random.default_rng(statistics.SEED)
    cells = {
        (scenario, arm): _compare(
            results, [run for run in runs if run.scenario == scenario], (name, scenario, arm), generator
        )
        for scenario in scenarios
        for arm in arms
    }
    overall = {}
    for arm in arms:
        together = _together([cells[scenario, arm] for scenario in scenarios], cells, generator)
        if together is not None:
            overall[arm] = together
    return TargetFigures(
        name=name,
        line=next((line for line in results.targets if line.target == name), None),
        scenarios=scenarios,
        arms=arms,
        cells=cells,
        overall=overall,
        runs=tuple(runs),
        warm_up_lines=lines_of(run for run in every if run.warm_up),
        differences=tuple(line for line in results.differences if line.target == name),
    )


def _compare(
    results: Results, runs: Sequence[RunLine], place: tuple[str, str, str], generator: np.random.Generator
) -> Cell:
    """The cell of a target, a scenario and an arm, from all runs of the scenario."""
    _, scenario, arm = place
    own = tuple(run for run in runs if run.arm == arm)
    if arm == BASELINE:
        return Cell(scenario, arm, own, remarks=_conditions(own))
    pairs = _pairs([run for run in runs if run.arm == BASELINE], own)
    differences = [line for line in results.differences if (line.target, line.scenario, line.arm) == place]
    refusal = _refusal(runs, own, pairs) or _text_refusal(pairs, differences, greedy=results.session.greedy)
    whole = _ratio(pairs, "whole", generator)
    if refusal is None and whole is None:
        refusal = Remark("no reply has a token", lines_of(own))
    if refusal is not None:
        return Cell(scenario, arm, own, refusal=refusal, remarks=_conditions(own))
    ties = _near_ties(pairs, differences)
    num_replies = len(own)
    unpaired = [Remark(f"{len(pairs)} of {num_replies} replies have a plain one", lines_of(own))]
    return Cell(
        scenario,
        arm,
        own,
        whole=whole,
        decode=_ratio(pairs, "decode", generator),
        remarks=(*(unpaired if len(pairs) < num_replies else ()), *ties, *_conditions(own)),
    )


Pair = tuple[RunLine, RunLine]


def _pairs(plain: Sequence[RunLine], other: Sequence[RunLine]) -> list[Pair]:
    """Plain and other replies to the same prompt in the same repetition."""
    known = {(run.prompt, run.repetition): run for run in plain}
    return [(known[key], run) for run in other if (key := (run.prompt, run.repetition)) in known]


def _sums(pairs: Sequence[Pair], part: Part) -> tuple[Amounts, Amounts]:
    """Of each prompt over its repetitions: plain's and the other's tokens and seconds.

    Prompts without a token or a second on either side are left out: a reply of a single step has no decoding.
    """
    prompts = list(dict.fromkeys(plain.prompt for plain, _ in pairs))
    table = np.zeros((2, len(prompts), 2))
    for pair in pairs:
        for side, run in enumerate(pair):
            table[side, prompts.index(run.prompt)] += amounts(run, part)
    table = table[:, (table > 0).all(axis=(0, 2))]
    return table[0], table[1]


def _ratio(pairs: Sequence[Pair], part: Part, generator: np.random.Generator) -> Comparison | None:
    plain, other = _sums(pairs, part)
    if not len(plain):
        return None
    ratio = statistics.compare(other, plain, generator)
    lines = lines_of(run for pair in pairs for run in pair)
    return Comparison(ratio, len(plain), lines, (pairs[0][0].scenario,))


def _together(
    cells: Sequence[Cell], all_cells: Mapping[tuple[str, str], Cell], generator: np.random.Generator
) -> Comparison | None:
    """An arm over the scenarios that have a ratio."""
    known = [(cell, cell.whole) for cell in cells if cell.whole is not None]
    if not known:
        return None
    comparisons = [comparison for _, comparison in known]
    if all(comparison.num_prompts > 1 for comparison in comparisons):
        ratio = statistics.geometric_mean([comparison.ratio for comparison in comparisons])
        how = "geometric mean of the scenarios' ratios"
    else:
        sums = [
            _sums(_pairs(all_cells[cell.scenario, BASELINE].runs, cell.runs), "whole") for cell, _ in known
        ]
        plain, other = (np.concatenate(side) for side in zip(*sums, strict=True))
        ratio = statistics.compare(other, plain, generator)
        how = "ratio of the sums over all prompts, since some scenario has a single one"
    return Comparison(
        ratio,
        sum(comparison.num_prompts for comparison in comparisons),
        tuple(sorted(line for comparison in comparisons for line in comparison.lines)),
        tuple(cell.scenario for cell, _ in known),
        how,
    )


def _refusal(runs: Sequence[RunLine], own: Sequence[RunLine], pairs: Sequence[Pair]) -> Remark | None:
    """Why there is nothing to compare, whatever the texts are."""
    if not own:
        return Remark("no measured reply", ())
    if not any(run.arm == BASELINE for run in runs):
        return Remark("no plain reply to compare with", lines_of(own))
    if not pairs:
        return Remark("no prompt was answered by plain as well", lines_of(own))
    dropped = [run for run in own if run.reason in _DROPPED]
    if dropped and own[0].arm != AUTO:
        reasons = ", ".join(dict.fromkeys(run.reason for run in dropped))
        return Remark(
            f"the drafter was dropped in {len(dropped)} of {len(own)} replies ({reasons})", lines_of(dropped)
        )
    return None


def _text_refusal(
    pairs: Sequence[Pair], differences: Sequence[DifferenceLine], *, greedy: bool
) -> Remark | None:
    """Greedy texts must be plain's, except behind a near tie: otherwise other work was measured."""
    if not greedy:
        return None
    far = [line for line in differences if not line.near_tie]
    if far:
        texts = len({(line.prompt, line.repetition) for line in far})
        return Remark(f"texts differ beyond near ties ({texts} of {len(pairs)})", _difference_lines(far))
    explained = {line.prompt for line in differences}
    unexplained = [pair for pair in pairs if _parted(pair) and pair[0].prompt not in explained]
    if unexplained:
        lines = lines_of(run for pair in unexplained for run in pair)
        return Remark(
            f"{len(unexplained)} of {len(pairs)} texts differ, and the file does not say where", lines
        )
    return None


def _near_ties(pairs: Sequence[Pair], differences: Sequence[DifferenceLine]) -> list[Remark]:
    ties = [line for line in differences if line.near_tie]
    if not ties:
        return []
    texts = sum(_parted(pair) for pair in pairs)
    return [Remark(f"{texts} of {len(pairs)} texts part from plain's at a near tie", _difference_lines(ties))]


def _parted(pair: Pair) -> bool:
    return pair[0].text_sha256 != pair[1].text_sha256


def _difference_lines(differences: Sequence[DifferenceLine]) -> tuple[int, ...]:
    return tuple(sorted(line.line for line in differences))


def _conditions(runs: Sequence[RunLine]) -> tuple[Remark, ...]:
    """What may have disturbed the measurement, and what the drafter was kept from."""
    remarks = []
    throttled = [run for run in runs if run.throttled]
    if throttled:
        remarks.append(Remark(f"throttled in {len(throttled)} of {len(runs)} replies", lines_of(throttled)))
    faulting = [run for run in runs if run.major_faults]
    if faulting:
        num_faults = sum(run.major_faults for run in faulting)
        remarks.append(Remark(f"{num_faults} major page faults", lines_of(faulting)))
    if runs and runs[0].arm != BASELINE:
        for reason, count in Counter(run.reason for run in runs).items():
            if reason != "on":
                having = [run for run in runs if run.reason == reason]
                remarks.append(Remark(f"{reason} in {count} of {len(runs)} replies", lines_of(having)))
    return tuple(remarks)
