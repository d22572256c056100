"""The answer in plain language: does it pay on this machine, with what, and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from homespec.benchmark.cells import AUTO, BASELINE, Comparison, Remark, TargetFigures, Verdict

Answer = Literal["pays", "does-not-pay", "unclear", "unknown"]

_WORDS: dict[Verdict, str] = {"faster": "faster", "slower": "slower", "unclear": "no clear difference"}
# Of fewer prompts, all point the same way by mere chance in more than a tenth of all runs (2 / 2^n > 0.1),
# which resampling them cannot know.
FEW_PROMPTS = 5
_HEDGE = ", as far as so few prompts can tell"
_UNTOLD = "one prompt, which cannot tell"


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
    if not target.overall:
        return _unknown(target)
    # An arm that was compared in fewer scenarios is not the better for it.
    best = max(
        target.overall, key=lambda arm: (len(target.overall[arm].scenarios), target.overall[arm].value)
    )
    arm = AUTO if AUTO in target.overall else best
    together = target.overall[arm]
    others = {
        name: other
        for name, other in target.overall.items()
        if name != arm and set(other.scenarios) >= set(together.scenarios)
    }
    first = max(others, key=lambda name: others[name].value, default=None)
    sentences = [Remark(f"With {arm}, {describe(together)}.", together.lines), *_by_verdict(target, arm)]
    if first is not None:
        text = f"The fastest of the other arms was {first}: {describe(others[first])}."
        flattery = (
            f"It was chosen after the fact from {len(others)}, which flatters it." if len(others) > 1 else ""
        )
        sentences.append(Remark(f"{text} {flattery}".strip(), others[first].lines))
    rescuer = first if first is not None and others[first].verdict == "faster" else None
    answer, title = _answer(together, arm, rescuer)
    return Headline(answer, title, tuple(sentences), arm, _outcomes(target, arm))


def describe(comparison: Comparison) -> str:
    """The ratio in words, with its interval and what it is made of."""
    if comparison.interval is None:
        interval = "no interval, since one prompt cannot tell how prompts differ"
    else:
        low, high = comparison.interval
        interval = f"90% interval {low:.2f} to {high:.2f}"
    base = f"{plural(len(comparison.scenarios), 'scenario')}, {plural(comparison.num_prompts, 'prompt')}"
    return (
        f"whole replies came at {comparison.value:.2f} times the speed of plain decoding ({interval}; {base})"
    )


def verdict_word(comparison: Comparison) -> str:
    """What is to be said of a comparison."""
    if comparison.interval is None:
        return _UNTOLD
    return _WORDS[comparison.verdict] + (_HEDGE if comparison.num_prompts < FEW_PROMPTS else "")


def plural(number: int, noun: str, nouns: str = "") -> str:
    """A count of something, whose plural is `nouns` or ends in s."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def _answer(together: Comparison, arm: str, rescuer: str | None) -> tuple[Answer, str]:
    where = "on this machine"
    if together.interval is None:
        return "unclear", f"One prompt cannot tell whether speculative decoding pays {where} with {arm}."
    if together.num_prompts < FEW_PROMPTS:
        where += f", as far as {together.num_prompts} prompts can tell"
    times = f"{together.value:.2f} times the speed of plain decoding"
    if together.verdict == "faster":
        return "pays", f"Speculative decoding pays {where}: with {arm}, {times}."
    if rescuer is not None:
        return "unclear", f"Speculative decoding pays {where}: with {rescuer}, but not with {arm}."
    if together.verdict == "slower":
        return "does-not-pay", f"Speculative decoding does not pay {where}: with {arm}, {times}."
    return "unclear", f"This run shows no clear difference between {arm} and plain decoding."


def _unknown(target: TargetFigures) -> Headline:
    reasons: dict[str, list[int]] = {}
    for cell in target.cells.values():
        if cell.refusal is not None:
            reasons.setdefault(cell.refusal.text, []).extend(cell.refusal.lines)
    if not target.runs:
        num_warm_ups = len(target.warm_up_lines)
        beyond = f" beyond {plural(num_warm_ups, 'warm-up')}" if num_warm_ups else ""
        reasons = {f"the file holds no reply{beyond}": list(target.warm_up_lines)}
    elif not reasons:
        reasons = {f"{BASELINE} is the only arm": []}
    sentences = tuple(Remark(f"{_capital(text)}.", tuple(sorted(lines))) for text, lines in reasons.items())
    return Headline(
        "unknown", "This file does not tell whether speculative decoding pays.", sentences, "", ()
    )


def _by_verdict(target: TargetFigures, arm: str) -> list[Remark]:
    """Which scenarios are faster, which slower, which neither; and which were left out, and why."""
    words = [word + hedge for word in _WORDS.values() for hedge in ("", _HEDGE)]
    groups: dict[str, list[tuple[str, Comparison]]] = {word: [] for word in (*words, _UNTOLD)}
    for scenario in target.scenarios:
        comparison = target.cells[scenario, arm].whole
        if comparison is not None:
            groups[verdict_word(comparison)].append((scenario, comparison))
    remarks = []
    for word, found in groups.items():
        if found:
            names = ", ".join(f"{scenario} ({comparison.value:.2f})" for scenario, comparison in found)
            lines = _lines([comparison for _, comparison in found])
            remarks.append(Remark(f"{_capital(word)}: {names}.", lines))
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


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
