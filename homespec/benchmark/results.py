"""The lines of a results file, read back with their numbers, so that what is reported can be looked up."""

from __future__ import annotations

import functools
import json
import sys
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from homespec.calibration.curve import CostCurve
from homespec.errors import ConfigError

Line = TypeVar("Line")

_HINT = "Pass a file that `homespec bench --out FILE` wrote."
_SIGNED = ("temperature_celsius",)


@dataclass(frozen=True, slots=True)
class SessionLine:
    """What was measured where; the first line.

    Attributes:
        line: its number in the file, beginning with 1; so in the other classes.
        version, commit: of homespec; no commit outside a checkout.
        started_at: ISO 8601, UTC.
        machine, settings: as the run wrote them, for people.
        build: of llama.cpp.
        load: over 1, 5 and 15 minutes, at the start.
        models: one mapping each, as the run wrote them.
        arms: names, in their order.
    """

    line: int
    version: str
    commit: str | None
    started_at: str
    machine: dict[str, object]
    build: str
    load: tuple[float, ...]
    models: tuple[dict[str, object], ...]
    settings: dict[str, object]
    arms: tuple[str, ...]

    @property
    def greedy(self) -> bool:
        """Whether equal texts can be expected."""
        return self.settings.get("temperature") == 0


@dataclass(frozen=True, slots=True)
class TargetLine:
    """A target after its engine opened.

    Attributes:
        target, draft: names; no draft model, no name.
        plan: a `PlanSummary`.
        curve: a `CostCurve`, see `cost_curve`; None where not measured.
        draft_seconds_per_token: None where not measured.
        planned_bytes: what the planner expected; None where not planned.
    """

    line: int
    target: str
    draft: str | None
    plan: dict[str, object]
    curve: dict[str, object] | None
    draft_seconds_per_token: float | None
    planned_bytes: int | None

    def cost_curve(self) -> CostCurve | None:
        """The curve, ready for use.

        Raises:
            ValueError, KeyError, TypeError: it is not one.
        """
        return None if self.curve is None else CostCurve.from_json(self.curve)


@dataclass(frozen=True, slots=True)
class RunLine:
    """One reply of one arm to one prompt.

    Attributes:
        target, scenario, prompt, repetition, arm: who answered what; prompts and repetitions are numbers.
        warm_up: it does not count.
        tokens, seconds: of the whole reply: prompt, drafting, everything.
        decode_tokens, decode_seconds: after the first step.
        prefill_seconds ... other_seconds: the parts of `seconds`.
        accepted_per_position, drafted_per_position: draft tokens, by their place in the draft.
        width_counts: width -> decodes of it.
        rss_anon_bytes, rss_file_bytes: after the reply; peak_rss_bytes is since it began.
        major_faults: during the reply.
        temperature_celsius, throttled, energy_joules: None where the machine does not tell.
        load: over one minute.
        reason, explanation: of the reply's plan.
    """

    line: int
    target: str
    scenario: str
    prompt: int
    repetition: int
    arm: str
    warm_up: bool
    tokens: int
    prompt_tokens: int
    seconds: float
    ttft_seconds: float
    decode_tokens: int
    decode_seconds: float
    prefill_seconds: float
    draft_seconds: float
    verify_seconds: float
    sample_seconds: float
    other_seconds: float
    num_drafts: int
    num_accepted_tokens: int
    accepted_per_position: tuple[int, ...]
    drafted_per_position: tuple[int, ...]
    width_counts: dict[int, int]
    rss_anon_bytes: int
    rss_file_bytes: int
    peak_rss_bytes: int
    major_faults: int
    temperature_celsius: float | None
    throttled: bool | None
    energy_joules: float | None
    load: float
    finish_reason: str
    text_sha256: str
    reason: str
    explanation: str


@dataclass(frozen=True, slots=True)
class DifferenceLine:
    """A reply that is not the plain one.

    Attributes:
        position: of the first token that differs, from 0.
        gap: between the two best logits there.
        near_tie: whether rounding explains it.
    """

    line: int
    target: str
    scenario: str
    prompt: int
    repetition: int
    arm: str
    position: int
    gap: float
    near_tie: bool


@dataclass(frozen=True, slots=True)
class Results:
    """A whole file.

    Attributes:
        num_lines: complete lines.
        truncated: whether the file ends within a line, which was left out.
        unknown: kinds of lines that this version does not know -> how many.
    """

    session: SessionLine
    targets: tuple[TargetLine, ...]
    runs: tuple[RunLine, ...]
    differences: tuple[DifferenceLine, ...]
    num_lines: int
    truncated: bool
    unknown: dict[str, int]


_KINDS: dict[str, type] = {
    "session": SessionLine,
    "target": TargetLine,
    "run": RunLine,
    "difference": DifferenceLine,
}


def read_results(path: Path) -> Results:
    """Reads and checks a results file.

    A run that was killed may leave half a line at the end: it is left out, and `truncated` says so.

    Raises:
        ConfigError: the file cannot be read, is damaged, or is none of homespec's.
    """
    try:
        raw_lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", hint=_HINT) from error
    last = raw_lines.pop()
    truncated = bool(last.strip()) and _parse(last) is None
    if last.strip() and not truncated:
        raw_lines.append(last)
    lines: dict[type, list[Any]] = {kind: [] for kind in _KINDS.values()}
    unknown: Counter[str] = Counter()
    for number, record in _records(path, raw_lines):
        kind = _KINDS.get(str(record.get("record")))
        if kind is None:
            unknown[str(record.get("record"))] += 1
        else:
            lines[kind].append(_build(kind, record, path, number))
    sessions = lines[SessionLine]
    if len(sessions) != 1 or sessions[0].line != 1:
        raise ConfigError(
            f"{path} has {len(sessions)} session lines; a results file has one, at its beginning.",
            hint=_HINT,
        )
    return Results(
        session=sessions[0],
        targets=tuple(lines[TargetLine]),
        runs=tuple(lines[RunLine]),
        differences=tuple(lines[DifferenceLine]),
        num_lines=len(raw_lines),
        truncated=truncated,
        unknown=dict(unknown),
    )


def _parse(raw: bytes) -> dict[str, Any] | None:
    """An object; None for whatever else."""
    try:
        value = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _records(path: Path, raw_lines: list[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, raw in enumerate(raw_lines, start=1):
        if not raw.strip():
            continue
        record = _parse(raw)
        if record is None:
            raise ConfigError(f"Line {number} of {path} is not a JSON object.", hint=_HINT)
        yield number, record


def _build(kind: Callable[..., Line], record: Mapping[str, object], path: Path, number: int) -> Line:
    """A line's dataclass from its fields; those that reports do not use are skipped."""
    values: dict[str, Any] = {}
    for name, annotation in _annotations(kind).items():
        try:
            values[name] = _convert(record[name], annotation)
            if isinstance(values[name], (int, float)) and values[name] < 0 and name not in _SIGNED:
                raise TypeError
        except KeyError:
            raise ConfigError(
                f"Line {number} of {path} has no {name}, which a {record['record']} line needs.", hint=_HINT
            ) from None
        except TypeError:
            raise ConfigError(
                f"Line {number} of {path} has a value of {name} that cannot be one.", hint=_HINT
            ) from None
    line = kind(line=number, **values)
    if isinstance(line, TargetLine):
        try:
            line.cost_curve()
        except (ValueError, KeyError, TypeError):
            raise ConfigError(
                f"Line {number} of {path} has a curve that is no cost curve.", hint=_HINT
            ) from None
    return line


@functools.cache
def _annotations(kind: object) -> dict[str, object]:
    """Of the fields that a line has in the file."""
    return {name: hint for name, hint in typing.get_type_hints(kind).items() if name != "line"}


def _convert(value: object, kind: object) -> object:
    """The value as its annotation wants it.

    Raises:
        TypeError: it is another kind of value, or a number that is not finite.
    """
    if isinstance(kind, types.UnionType):
        if value is None:
            return None
        (kind,) = (member for member in typing.get_args(kind) if member is not types.NoneType)
    if kind is object or (kind in (str, bool) and isinstance(value, kind)):
        return value
    if kind in (int, float) and isinstance(value, int if kind is int else (int, float)):
        # JSON's booleans are numbers to Python, and its numbers may be NaN or too large for a float.
        if not isinstance(value, bool) and abs(value) <= sys.float_info.max:
            return value if kind is int else float(value)
    elif typing.get_origin(kind) is tuple and isinstance(value, list):
        return tuple(_convert(item, typing.get_args(kind)[0]) for item in value)
    elif typing.get_origin(kind) is dict and isinstance(value, dict):
        key_kind, item_kind = typing.get_args(kind)
        if key_kind is str or all(key.isdecimal() and len(key) < 10 for key in value):
            return {key_kind(key): _convert(item, item_kind) for key, item in value.items()}
    raise TypeError
