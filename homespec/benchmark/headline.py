"""The answer in plain language: does it pay on this machine, with what, and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from homespec.benchmark.cells import AUTO, BASELINE, Comparison, Remark, TargetFigures, Verdict

Answer = Literal["pays", "does-not-pay", "unclear", "unknown"]

_WORDS: dict[Verdict, str] = {"faster": "Faster", "slower": "Slower", "unclear": "No clear difference"}


class Outcome(NamedTuple):
    """A scenario under the arm that the headline speaks of.

    Attributes:
        scenario: its name.
        comparison: None where `refusal` says why.
        refusal: why there is none.
        best_arm, best: the fastest of all arms in this scenario, chosen after the fact.
    """

    scenario: str
    comparison: Comparison | None
    refusal: str
    best_arm: str
    best: Comparison | None


class Headline(NamedTuple):
    """What a run says about a target.

    Attributes:
        answer: in one word, for the page's looks.
        title: in one sentence.
        sentences: what supports it, each with its lines.
        arm: whom `outcomes` are about; "" without any comparison.
        outcomes: by scenario.
    """

    answer: Answer
    title: str
    sentences: tuple[Remark, ...]
    arm: str
    outcomes: tuple[Outcome, ...]


def write_headline(target: TargetFigures) -> Headline:
    """The headline of a target; about auto, which is what users get, or else about the best arm."""
    best = max(target.overall, key=lambda arm: target.overall[arm].value, default=None)
    if best is None:
        return _unknown(target)
    arm = AUTO if AUTO in target.overall else best
    together = target.overall[arm]
    sentences = [Remark(f"With {arm}, {describe(together)}.", together.lines), *_by_verdict(target, arm)]
    fixed = [name for name in target.overall if name != arm]
    rescuer = None
    if fixed:
        first = max(fixed, key=lambda name: target.overall[name].value)
        other = target.overall[first]
        kind = "fixed settings" if arm == AUTO else "other arms"
        sentences.append(
            Remark(
                f"The fastest of the {kind} was {first}: {describe(other)}. It was chosen after the fact "
                f"from {len(fixed)}, which flatters it.",
                other.lines,
            )
        )
        rescuer = first if other.verdict == "faster" else None
    answer, claim = _answer(together, arm, rescuer)
    return Headline(answer, claim, tuple(sentences), arm, _outcomes(target, arm))


def describe(comparison: Comparison) -> str:
    """The ratio in words, with its interval and what it is made of."""
    scenarios = _plural(len(comparison.scenarios), "scenario")
    base = f"{scenarios}, {_plural(comparison.num_prompts, 'prompt')}"
    if comparison.interval is None:
        interval = "no interval, since one prompt cannot tell how prompts differ"
    else:
        low, high = comparison.interval
        interval = f"90% interval {low:.2f} to {high:.2f}"
    return (
        f"whole replies came at {comparison.value:.2f} times the speed of plain decoding ({interval}; {base})"
    )


def _answer(together: Comparison, arm: str, rescuer: str | None) -> tuple[Answer, str]:
    if together.verdict == "faster":
        times = f"{together.value:.2f} times as fast as plain decoding"
        return "pays", f"Speculative decoding pays on this machine: with {arm}, {times}."
    if rescuer is not None:
        return "unclear", f"Speculative decoding pays on this machine with {rescuer}, but not with {arm}."
    if together.verdict == "slower":
        times = f"{together.value:.2f} times the speed of plain decoding"
        return "does-not-pay", f"Speculative decoding does not pay on this machine: with {arm}, {times}."
    return "unclear", f"This run shows no clear difference between {arm} and plain decoding."


def _unknown(target: TargetFigures) -> Headline:
    reasons: dict[str, list[int]] = {}
    for cell in target.cells.values():
        if cell.refusal is not None:
            reasons.setdefault(cell.refusal.text, []).extend(cell.refusal.lines)
    if not target.runs:
        warm_ups = (
            f" beyond {_plural(len(target.warm_up_lines), 'warm-up')}" if len(target.warm_up_lines) else ""
        )
        reasons = {f"the file holds no reply{warm_ups}": []}
    elif not reasons:
        reasons = {f"{BASELINE} is the only arm": []}
    sentences = [
        Remark(f"{text[0].upper()}{text[1:]}.", tuple(sorted(lines))) for text, lines in reasons.items()
    ]
    title = "This file does not tell whether speculative decoding pays."
    return Headline("unknown", title, tuple(sentences), "", ())


def _by_verdict(target: TargetFigures, arm: str) -> list[Remark]:
    """Which scenarios are faster, which slower, which neither; and which were left out, and why."""
    remarks = []
    for verdict, word in _WORDS.items():
        found = [
            (scenario, comparison)
            for scenario in target.scenarios
            if (comparison := target.cells[scenario, arm].whole) is not None and comparison.verdict == verdict
        ]
        if found:
            names = ", ".join(f"{scenario} ({comparison.value:.2f})" for scenario, comparison in found)
            remarks.append(Remark(f"{word}: {names}.", _lines([comparison for _, comparison in found])))
    for scenario in target.scenarios:
        refusal = target.cells[scenario, arm].refusal
        if refusal is not None:
            remarks.append(Remark(f"No speedup is given for {scenario}: {refusal.text}.", refusal.lines))
    return remarks


def _outcomes(target: TargetFigures, arm: str) -> tuple[Outcome, ...]:
    outcomes = []
    for scenario in target.scenarios:
        cell = target.cells[scenario, arm]
        compared = {name: target.cells[scenario, name].whole for name in target.arms}
        known = {name: whole for name, whole in compared.items() if whole is not None}
        best_arm = max(known, key=lambda name: known[name].value, default="")
        refusal = cell.refusal.text if cell.refusal else ""
        outcomes.append(Outcome(scenario, cell.whole, refusal, best_arm, known.get(best_arm)))
    return tuple(outcomes)


def _lines(comparisons: Sequence[Comparison]) -> tuple[int, ...]:
    return tuple(sorted({line for comparison in comparisons for line in comparison.lines}))


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
