"""`homespec bench --quick`: whether it pays on this machine, in minutes and in one answer."""

from __future__ import annotations

from homespec.benchmark.cells import AUTO, BASELINE, Comparison, TargetFigures, Verdict, compare_targets
from homespec.benchmark.headline import FEW_PROMPTS, plural
from homespec.benchmark.results import Results
from homespec.benchmark.statistics import CONFIDENCE
from homespec.benchmark.summary import describe

LIMIT_SECONDS = 150.0
"""No turn is begun that would end later, opening and measuring the machine included."""
SCENARIOS = ("code", "editing", "chat")
"""What gains most, and what gains least; those that are there."""
MAX_TOKENS = 64
ARMS = ("ngram 4", "auto")
"""Beside plain decoding: what users get, and a drafter that every machine has."""

_VERDICTS: dict[Verdict, str] = {
    "faster": "it pays",
    "slower": "it does not pay",
    "unclear": "these prompts do not tell whether it pays",
}


def answers(results: Results) -> list[str]:
    """One answer for each target."""
    return [_answer(target) for target in compare_targets(results)]


def _answer(target: TargetFigures) -> str:
    start = f"On this machine, with {target.name}, "
    together = target.overall.get(AUTO)
    if together is None:
        reasons = [cell.refusal.text for cell in target.cells.values() if cell.arm == AUTO and cell.refusal]
        return f"{start}nothing was compared: {'; '.join(dict.fromkeys(reasons)) or 'there was no time'}."
    parts = [
        f"{_as_ratio(cell.whole)} on {cell.scenario}"
        for cell in target.cells.values()
        if cell.arm == AUTO and cell.whole is not None
    ]
    draft = f" and the draft model {target.line.draft}" if target.line and target.line.draft else ""
    prompts = plural(together.num_prompts, "prompt")
    is_claim = together.verdict != "unclear"
    hedge = f", as far as {prompts} can tell" if is_claim and together.num_prompts < FEW_PROMPTS else ""
    answer = (
        f"{start}{_VERDICTS[together.verdict]}{hedge}: {_as_ratio(together)} plain decoding's speed over "
        f"{prompts}, {', '.join(parts)} (in brackets: {CONFIDENCE:.0%} intervals); "
        f"drafter: n-gram lookup{draft}."
    )
    return answer + _best_fixed(target, together)


def _best_fixed(target: TargetFigures, auto: Comparison) -> str:
    """A fixed length that did better, if there is one: chosen after the fact, which flatters it."""
    fixed = {
        arm: found
        for arm, found in target.overall.items()
        if arm not in (AUTO, BASELINE) and set(found.scenarios) >= set(auto.scenarios)
    }
    best = max(fixed, key=lambda arm: fixed[arm].value, default=None)
    if best is None or fixed[best].value <= auto.value:
        return ""
    return f" Always drafting, with {best}, gave {_as_ratio(fixed[best])}."


def _as_ratio(comparison: Comparison | None) -> str:
    assert comparison is not None
    value, bracket, interval = describe(comparison).partition(" ")
    return f"{value} times{bracket}{interval}"
