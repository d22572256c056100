"""The page of a report: figures as text, each with the lines behind it, put into the template."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from homespec.benchmark.cells import BASELINE, Cell, Comparison, TargetFigures, Verdict
from homespec.benchmark.charts import Missing
from homespec.benchmark.figures import (
    PHASES,
    Figure,
    describe_lines,
    joules_per_token,
    lines_of,
    list_lines,
    mean_acceptance_length,
    median,
    most,
    phase_seconds_per_token,
    speed,
)
from homespec.benchmark.headline import plural, verdict_word, write_headline
from homespec.benchmark.palette import css_variables
from homespec.benchmark.plots import Plot
from homespec.benchmark.results import Results, RunLine
from homespec.units import format_bytes, format_seconds

_NONE = "-"
_SIGNS: dict[Verdict, str] = {"faster": "▲", "slower": "▼", "unclear": "≈"}


class Value(NamedTuple):
    """What stands in one place of the page.

    Attributes:
        text: as people read it.
        lines: of the results file that it is computed from.
    """

    text: str
    lines: Sequence[int] = ()

    @property
    def attributes(self) -> Markup:
        """The attributes that make it traceable; none where there is nothing to trace."""
        if not self.lines:
            return Markup("")
        return Markup(' data-lines="{}" title="{}"').format(
            list_lines(self.lines), describe_lines(self.lines)
        )


def render(
    results: Results, targets: Sequence[tuple[TargetFigures, Sequence[Plot | Missing]]], results_file: str
) -> str:
    """The whole page.

    Args:
        results: what was read.
        targets: their figures and plots.
        results_file: where the results lie, as the page refers to them.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("homespec.benchmark"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(
        colors=Markup(css_variables()),
        results=results,
        started=_moment(results.session.started_at),
        phases=PHASES,
        results_file=results_file,
        notes=_notes(results),
        session=_facts(
            {
                "started": _moment(results.session.started_at),
                "homespec": results.session.version,
                "commit": results.session.commit,
                "llama.cpp": results.session.build,
                "load (1, 5, 15 minutes)": list(results.session.load),
                "arms": list(results.session.arms),
            }
        ),
        machine=_facts(results.session.machine),
        settings=_facts(results.session.settings),
        models=[_facts(model) for model in results.session.models],
        session_lines=Value("", [results.session.line]),
        targets=[_target(target, plots) for target, plots in targets],
    )


def _target(target: TargetFigures, plots: Sequence[Plot | Missing]) -> dict[str, Any]:
    """What the template needs of a target."""
    headline = write_headline(target)
    line = target.line
    return {
        "name": target.name,
        "headline": headline,
        "sentences": [Value(*sentence) for sentence in headline.sentences],
        "outcomes": [
            {
                "scenario": outcome.scenario,
                "ratio": _ratio(outcome.comparison, outcome.refusal),
                "verdict": _verdict(outcome.comparison) if outcome.comparison else "",
                "best_arm": outcome.best_arm,
                "best": _ratio(outcome.best, ""),
                "num_prompts": _num_prompts(outcome.comparison),
            }
            for outcome in headline.outcomes
        ],
        "plan": Value(str(line.plan.get("explanation", "")), [line.line]) if line else None,
        "facts": _target_facts(target),
        "scenarios": [
            (scenario, [_row(target.cells[scenario, arm]) for arm in target.arms])
            for scenario in target.scenarios
        ],
        "overall": [
            (arm, _ratio(together, ""), together.how, _num_scenarios(target, together), _verdict(together))
            for arm, together in target.overall.items()
        ],
        "conditions": [_conditions(arm, runs) for arm in target.arms if (runs := target.runs_of(arm))],
        "num_runs": Value(plural(len(target.runs), "reply", "replies"), lines_of(target.runs)),
        "num_warm_ups": Value(plural(len(target.warm_up_lines), "warm-up"), target.warm_up_lines),
        "differences": [(difference, Value("", [difference.line])) for difference in target.differences],
        "plots": [plot for plot in plots if isinstance(plot, Plot)],
        "missing": [plot for plot in plots if isinstance(plot, Missing)],
    }


def _row(cell: Cell) -> dict[str, Any]:
    """One line of the two tables of arms and scenarios."""
    runs = cell.runs
    refusal = "baseline" if cell.arm == BASELINE else (cell.refusal.text if cell.refusal else "")
    lines = cell.refusal.lines if cell.refusal else lines_of(runs)
    return {
        "arm": cell.arm,
        "whole": _ratio(cell.whole, refusal, lines),
        "whole_kind": "text" if cell.refusal else "number",
        "decode": _ratio(cell.decode, _NONE),
        "values": [
            _value(speed(runs, "whole"), "{:.2f}".format),
            _value(speed(runs, "decode"), "{:.2f}".format),
            _value(mean_acceptance_length(runs), "{:.2f}".format, "no drafts" if runs else _NONE),
            _value(median(runs, lambda run: run.ttft_seconds), format_seconds),
        ],
        "replies": Value(str(len(runs)), lines_of(runs)),
        "remarks": [Value(*remark) for remark in cell.remarks],
        "costs": [
            *(_value(phase_seconds_per_token(runs, phase), _milliseconds) for phase in PHASES),
            _value(most(runs, lambda run: run.peak_rss_bytes), format_bytes),
            _value(most(runs, lambda run: run.rss_anon_bytes), format_bytes),
            _value(most(runs, lambda run: run.rss_file_bytes), format_bytes),
            _value(joules_per_token(runs), "{:.3f}".format),
        ],
    }


def _conditions(arm: str, runs: Sequence[RunLine]) -> tuple[str, list[Value]]:
    """Under what an arm was measured."""
    lines = lines_of(runs)
    throttled = [run for run in runs if run.throttled]
    told = [run for run in runs if run.throttled is not None]
    endings = Counter(run.finish_reason for run in runs)
    return arm, [
        Value(str(len(runs)), lines),
        Value(f"{sum(run.tokens for run in runs):,}", lines),
        Value(", ".join(f"{name} {count}" for name, count in endings.most_common()), lines),
        _value(most(runs, lambda run: run.temperature_celsius), "{:.0f} °C".format),
        Value(f"{len(throttled)} of {len(told)}", lines_of(told)) if told else Value(_NONE),
        Value(f"{sum(run.major_faults for run in runs):,}", lines),
        _value(most(runs, lambda run: run.load), "{:.2f}".format),
    ]


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.2f}"


def _value(figure: Figure, write: Callable[[float], str], absent: str = _NONE) -> Value:
    return Value(absent) if figure.value is None else Value(write(figure.value), figure.lines)


def _ratio(comparison: Comparison | None, absent: str, lines: Sequence[int] = ()) -> Value:
    """A ratio with its interval; otherwise why there is none."""
    if comparison is None:
        return Value(absent, lines)
    if comparison.interval is None:
        return Value(f"{comparison.value:.2f} (one prompt)", comparison.lines)
    low, high = comparison.interval
    return Value(f"{comparison.value:.2f} ({low:.2f} to {high:.2f})", comparison.lines)


def _verdict(comparison: Comparison) -> str:
    return f"{_SIGNS[comparison.verdict]} {verdict_word(comparison)}"


def _num_prompts(comparison: Comparison | None) -> Value:
    return Value(_NONE) if comparison is None else Value(str(comparison.num_prompts), comparison.lines)


def _num_scenarios(target: TargetFigures, comparison: Comparison) -> Value:
    return Value(f"{len(comparison.scenarios)} of {len(target.scenarios)}", comparison.lines)


def _target_facts(target: TargetFigures) -> list[tuple[str, str]]:
    line = target.line
    if line is None:
        return []
    pace = line.draft_seconds_per_token
    return _facts(
        {
            "draft model": line.draft or "none",
            "reason": line.plan.get("reason"),
            "context_tokens": line.plan.get("context_tokens"),
            "longest_draft_tokens": line.plan.get("draft_length"),
            "planned_bytes": line.planned_bytes,
            "headroom_bytes": line.plan.get("headroom_bytes"),
            "drafting a token": None if pace is None else f"{1000 * pace:.2f} ms",
        }
    )


def _facts(mapping: Mapping[str, object]) -> list[tuple[str, str]]:
    """Names and values of a record for people; the unit in a name's end decides how the value is written."""
    return [
        (name.removesuffix("_bytes").removesuffix("_tokens").replace("_", " "), _fact(name, value))
        for name, value in mapping.items()
    ]


def _fact(name: str, value: object) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_fact("", item) for item in value) or "none"
    if isinstance(value, int) and name.endswith("_bytes"):
        return f"{format_bytes(value)} ({value:,} B)"
    if isinstance(value, int) and name.endswith("_tokens"):
        return f"{value:,} tokens"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _moment(text: str) -> str:
    """A date and time of ISO 8601 for people; anything else as it is."""
    with contextlib.suppress(ValueError):
        return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return text


def _notes(results: Results) -> list[str]:
    """What a reader has to know about the file."""
    notes = []
    if results.truncated:
        notes.append(
            f"The file ends within line {results.num_lines + 1}, as when a run is killed. That line was left "
            "out, and the run is probably not complete."
        )
    if results.unknown:
        kinds = ", ".join(f"{name} ({count})" for name, count in results.unknown.items())
        notes.append(f"Lines of kinds that this version does not know were left out: {kinds}.")
    if not results.runs:
        notes.append("The file holds no reply.")
    return notes
