"""Figures of a set of replies, each a plain function of their lines."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from homespec.benchmark.results import RunLine

Part = Literal["whole", "decode"]

PHASES = ("prefill", "draft", "verify", "sample", "other")
"""The parts of a reply's seconds, in the order in which they happen."""

_NUM_SHOWN_LINES = 12


@dataclass(frozen=True, slots=True)
class Figure:
    """A number and where it comes from.

    Attributes:
        value: None where it cannot be told.
        lines: of the results file, ascending.
    """

    value: float | None
    lines: tuple[int, ...]


class Position(NamedTuple):
    """How draft tokens at one place in their drafts fared.

    Attributes:
        position: 1 is the first token of a draft.
        rate: accepted / drafted.
        num_drafted: tokens that were drafted there.
        lines: of the replies with such tokens.
    """

    position: int
    rate: float
    num_drafted: int
    lines: tuple[int, ...]


def lines_of(runs: Iterable[RunLine]) -> tuple[int, ...]:
    """Where the replies stand in the file."""
    return tuple(sorted(run.line for run in runs))


def amounts(run: RunLine, part: Part) -> tuple[int, float]:
    """Tokens and seconds of the whole reply, or of what came after its first step."""
    return (run.decode_tokens, run.decode_seconds) if part == "decode" else (run.tokens, run.seconds)


def speed(runs: Sequence[RunLine], part: Part) -> Figure:
    """Tokens per second: the sum of tokens over the sum of seconds."""
    pairs = [amounts(run, part) for run in runs]
    return _quotient(runs, sum(tokens for tokens, _ in pairs), sum(seconds for _, seconds in pairs))


def mean_acceptance_length(runs: Sequence[RunLine]) -> Figure:
    """1 + accepted / drafts; none without a draft."""
    num_drafts = sum(run.num_drafts for run in runs)
    accepted = _quotient(runs, sum(run.num_accepted_tokens for run in runs), num_drafts)
    return Figure(None if accepted.value is None else 1 + accepted.value, accepted.lines)


def joules_per_token(runs: Sequence[RunLine]) -> Figure:
    """Over the replies whose energy was read."""
    known = [run for run in runs if run.energy_joules is not None]
    return _quotient(known, sum(run.energy_joules or 0.0 for run in known), sum(run.tokens for run in known))


def phase_seconds_per_token(runs: Sequence[RunLine], phase: str) -> Figure:
    """What a token of whole replies costs in one of `PHASES`."""
    return _quotient(runs, _seconds(runs, phase), sum(run.tokens for run in runs))


def median(runs: Sequence[RunLine], field: Callable[[RunLine], float]) -> Figure:
    """Of a field."""
    return Figure(statistics.median(map(field, runs)) if runs else None, lines_of(runs))


def most(runs: Sequence[RunLine], field: Callable[[RunLine], float | None]) -> Figure:
    """The largest value of a field, with the replies that have it."""
    values = {run.line: value for run in runs if (value := field(run)) is not None}
    largest = max(values.values(), default=None)
    return Figure(largest, tuple(sorted(line for line, value in values.items() if value == largest)))


def time_shares(runs: Sequence[RunLine]) -> dict[str, float]:
    """Phase -> its share of all phases' seconds; empty if they took none."""
    seconds = {phase: _seconds(runs, phase) for phase in PHASES}
    total = sum(seconds.values())
    return {phase: value / total for phase, value in seconds.items()} if total else {}


def _seconds(runs: Iterable[RunLine], phase: str) -> float:
    return sum(float(getattr(run, f"{phase}_seconds")) for run in runs)


def acceptance_by_position(runs: Sequence[RunLine]) -> list[Position]:
    """For each place in a draft that some reply reached."""
    positions = []
    for index in range(max((len(run.drafted_per_position) for run in runs), default=0)):
        reaching = [run for run in runs if index < len(run.drafted_per_position)]
        num_drafted = sum(run.drafted_per_position[index] for run in reaching)
        num_accepted = sum(sum(run.accepted_per_position[index : index + 1]) for run in reaching)
        if num_drafted:
            positions.append(Position(index + 1, num_accepted / num_drafted, num_drafted, lines_of(reaching)))
    return positions


def width_shares(runs: Sequence[RunLine]) -> dict[int, Figure]:
    """Width -> its share of all decodes, ascending."""
    counts: Counter[int] = Counter()
    for run in runs:
        counts.update(run.width_counts)
    total = counts.total()
    return {
        width: Figure(count / total, lines_of(run for run in runs if run.width_counts.get(width)))
        for width, count in sorted(counts.items())
        if count
    }


def _quotient(runs: Iterable[RunLine], dividend: float, divisor: float) -> Figure:
    return Figure(dividend / divisor if divisor else None, lines_of(runs))


def list_lines(lines: Iterable[int]) -> str:
    """For the attribute `data-lines`: numbers with spaces between them."""
    return " ".join(map(str, lines))


def describe_lines(lines: Sequence[int]) -> str:
    """For people: the first lines, and how many there are."""
    shown = ", ".join(map(str, lines[:_NUM_SHOWN_LINES]))
    if len(lines) > _NUM_SHOWN_LINES:
        return f"{len(lines)} lines: {shown}, ..."
    return f"line{'s' if len(lines) > 1 else ''} {shown}" if lines else "no line"
