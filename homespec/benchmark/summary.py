"""A session's figures for the terminal, and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from homespec.benchmark.cells import BASELINE, Cell, Comparison, TargetFigures, compare_targets
from homespec.benchmark.figures import (
    PHASES,
    acceptance_by_position,
    joules_per_token,
    mean_acceptance_length,
    median,
    most,
    speed,
    time_shares,
)
from homespec.benchmark.results import Results, RunLine
from homespec.benchmark.statistics import CONFIDENCE
from homespec.units import format_bytes, format_seconds

WIDTH = 80


def render(results: Results) -> Iterator[RenderableType]:
    """Tables of 80 columns: speeds by scenario and arm, and what each arm took, for every target."""
    settings = results.session.settings
    manner = "greedy" if results.session.greedy else f"temperature {settings.get('temperature')}"
    start = "cold starts" if settings.get("cold") else "warm"
    for target in compare_targets(results):
        draft = f", draft model {target.line.draft}" if target.line and target.line.draft else ""
        yield Text(f"\n{target.name}{draft}", style="bold")
        yield Text(f"{manner}, up to {settings.get('max_tokens')} tokens, {start}")
        yield _speeds(target)
        yield from map(Text, _notes(target))
        yield _costs(target)


def to_json(results: Results) -> dict[str, Any]:
    """All figures of a session as one object."""
    targets = [
        {
            "target": target.name,
            "draft": target.line.draft if target.line else None,
            "cells": [_cell_json(cell) for cell in target.cells.values()],
            "overall": {arm: _comparison_json(comparison) for arm, comparison in target.overall.items()},
        }
        for target in compare_targets(results)
    ]
    return {"arms": list(results.session.arms), "confidence": CONFIDENCE, "targets": targets}


def _speeds(target: TargetFigures) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    table.add_column("scenario", max_width=12, no_wrap=True, overflow="ellipsis")
    table.add_column("arm", no_wrap=True)
    for header in ("tokens/s\ndecoding", "first\ntoken", "tokens\n/draft"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column(f"times plain, whole\nreplies ({CONFIDENCE:.0%})", no_wrap=True)
    for scenario in target.scenarios:
        for arm in target.arms:
            cell = target.cells[scenario, arm]
            if not cell.runs:
                continue
            shown = scenario if arm == BASELINE else ""
            table.add_row(shown, arm, *_speed_cells(cell.runs), _against_plain(cell))
        table.add_section()
    if len(target.scenarios) > 1:
        for number, (arm, comparison) in enumerate(target.overall.items()):
            table.add_row("" if number else "together", arm, "", "", "", describe(comparison))
    return table


def _speed_cells(runs: Sequence[RunLine]) -> tuple[str, str, str]:
    decoding, length = speed(runs, "decode").value, mean_acceptance_length(runs).value
    return (
        "-" if decoding is None else f"{decoding:.2f}",
        format_seconds(median(runs, lambda run: run.ttft_seconds).value or 0.0),
        "-" if length is None else f"{length:.2f}",
    )


def _against_plain(cell: Cell) -> str:
    if cell.refusal is not None:
        return "not compared"
    return "" if cell.whole is None else describe(cell.whole)


def describe(comparison: Comparison) -> str:
    """The ratio and its interval: `1.26 (1.10 to 1.40)`."""
    if comparison.interval is None:
        return f"{comparison.value:.2f}"
    low, high = comparison.interval
    return f"{comparison.value:.2f} ({low:.2f} to {high:.2f})"


def _notes(target: TargetFigures) -> Iterator[str]:
    """Why something was not compared, and what else is to be known about a cell."""
    for cell in target.cells.values():
        texts = [remark.text for remark in cell.remarks]
        if cell.refusal is not None and cell.runs:
            texts.insert(0, f"not compared: {cell.refusal.text}")
        if texts:
            yield f"  {cell.scenario}, {cell.arm}: {'; '.join(texts)}"


def _costs(target: TargetFigures) -> Table:
    """Where the time goes, and the memory, by arm over all scenarios."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    table.add_column("time, memory", no_wrap=True)
    for header in ("prompt", *PHASES[1:]):
        table.add_column(header, justify="right", no_wrap=True)
    for header in ("anon.", "files"):
        table.add_column(header, justify="right", no_wrap=True)
    energies = {arm: joules_per_token(target.runs_of(arm)).value for arm in target.arms}
    has_energy = any(value is not None for value in energies.values())
    if has_energy:
        table.add_column("J/tok.", justify="right", no_wrap=True)
    for arm in target.arms:
        runs = target.runs_of(arm)
        if not runs:
            continue
        shares = time_shares(runs)
        row = [f"{shares.get(phase, 0.0):.0%}" for phase in PHASES]
        row += [format_bytes(most(runs, field).value or 0) for field in (_anon_bytes, _file_bytes)]
        if has_energy:
            energy = energies[arm]
            row.append("-" if energy is None else f"{energy:.2f}")
        table.add_row(arm, *row)
    return table


def _anon_bytes(run: RunLine) -> float:
    return run.rss_anon_bytes


def _file_bytes(run: RunLine) -> float:
    return run.rss_file_bytes


def _cell_json(cell: Cell) -> dict[str, Any]:
    runs = cell.runs
    return {
        "scenario": cell.scenario,
        "arm": cell.arm,
        "num_replies": len(runs),
        "tokens_per_second": speed(runs, "whole").value,
        "decode_tokens_per_second": speed(runs, "decode").value,
        "ttft_seconds": median(runs, lambda run: run.ttft_seconds).value,
        "seconds": median(runs, lambda run: run.seconds).value,
        "mean_acceptance_length": mean_acceptance_length(runs).value,
        "acceptance_by_position": [position.rate for position in acceptance_by_position(runs)],
        "time_shares": time_shares(runs),
        "peak_rss_bytes": most(runs, lambda run: run.peak_rss_bytes).value,
        "rss_anon_bytes": most(runs, _anon_bytes).value,
        "rss_file_bytes": most(runs, _file_bytes).value,
        "major_faults": sum(run.major_faults for run in runs),
        "joules_per_token": joules_per_token(runs).value,
        "temperature_celsius": most(runs, lambda run: run.temperature_celsius).value,
        "speedup": _comparison_json(cell.whole),
        "decode_speedup": _comparison_json(cell.decode),
        "not_compared": cell.refusal.text if cell.refusal is not None else None,
        "remarks": [remark.text for remark in cell.remarks],
    }


def _comparison_json(comparison: Comparison | None) -> dict[str, Any] | None:
    if comparison is None:
        return None
    return {
        "ratio": comparison.value,
        "interval": comparison.interval,
        "num_prompts": comparison.num_prompts,
    }
