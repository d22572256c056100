"""What a bench writes down: one JSON object a line, `record` first, from the session to the last reply."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from homespec.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a bench ran; None for what the system does not tell."""

    cpu: str
    num_cpus: int
    memory_bytes: int
    kernel: str
    governor: str | None


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model file that took part; `file` is its name without the directory."""

    name: str
    role: str
    file: str
    quantization: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Conditions:
    """What was the same for all arms. Context and threads are the first target's."""

    max_tokens: int
    temperature: float
    repetitions: int
    num_prompts: int
    context_tokens: int
    threads: int
    batch_threads: int
    cold: bool


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """The first line: who measured, where, and under which conditions.

    Attributes:
        version, commit: of homespec; the commit is None outside of a repository.
        started_at: ISO 8601, UTC.
        machine: where.
        build: of llama.cpp, see `calibration.fingerprint`.
        load: averages of 1, 5 and 15 minutes when it began.
        models: the files.
        settings: the conditions.
        arms: names, the baseline first.
    """

    record: ClassVar[str] = "session"

    version: str
    commit: str | None
    started_at: str
    machine: Machine
    build: str
    load: tuple[float, ...]
    models: tuple[ModelFile, ...]
    settings: Conditions
    arms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """A target, once it is open.

    Attributes:
        target, draft: names; `draft` is None without a draft model.
        plan: `records.PlanSummary`.
        curve: `CostCurve.to_json()`; None where nothing was measured.
        draft_seconds_per_token: of the draft model, by its calibration.
        planned_bytes: RssAnon + RssFile that the plan expects of the opened models.
    """

    record: ClassVar[str] = "target"

    target: str
    draft: str | None
    plan: dict[str, Any]
    curve: dict[str, Any] | None
    draft_seconds_per_token: float | None
    planned_bytes: int


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One reply of one arm; names as in `records.GenerationStats` mean the same.

    Attributes:
        target, scenario, prompt, repetition, arm: which reply; prompts and repetitions begin with 0.
        order: place in the whole session.
        warm_up: not to be counted.
        seconds: of the whole reply, prompt and drafting included; cold, opening the models as well.
        other_seconds: of `seconds`, what is neither the prompt's, nor drafting, decoding or choosing tokens.
        open_seconds: of those, opening the models, where each reply opens them anew.
        peak_rss_bytes: since the reply began.
        temperature_celsius: the highest sensor's; None, like throttled and energy_joules, where unreadable.
        load: average of 1 minute, just before.
        reason, explanation: of the reply's plan.
        resident_share: of the model files, in memory before the reply; None where unreadable.
    """

    record: ClassVar[str] = "run"

    target: str
    scenario: str
    prompt: int
    repetition: int
    arm: str
    order: int
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
    open_seconds: float
    num_drafts: int
    num_draft_tokens: int
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
    predicted_tokens_per_second: float | None
    text_kind: str | None
    resident_share: float | None


@dataclass(frozen=True, slots=True)
class DifferenceRecord:
    """A greedy text that is not the plain one.

    Attributes:
        position: of the first token that differs.
        gap: between the two best logits of plain decoding there.
        near_tie: see `exactness.NEAR_TIE_GAP`.
    """

    record: ClassVar[str] = "difference"

    target: str
    scenario: str
    prompt: int
    repetition: int
    arm: str
    position: int
    gap: float
    near_tie: bool


Record = SessionRecord | TargetRecord | RunRecord | DifferenceRecord


class Recorder:
    """Writes records to a file, line by line, so that whatever stops the bench loses none."""

    def __init__(self, path: Path) -> None:
        """Makes the file.

        Raises:
            ConfigError: it is there already, or cannot be written.
        """
        self.path = path
        try:
            self._file = path.open("x", encoding="ascii")
        except FileExistsError:
            raise ConfigError(
                f"{path} is there already; a bench overwrites no results.", hint="Name another file."
            ) from None
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be written: {error.strerror}.", hint="Name another file."
            ) from None

    def write(self, record: Record) -> None:
        """Adds a line.

        Raises:
            OSError: the disk is full, for example.
        """
        self._file.write(json.dumps({"record": record.record, **asdict(record)}) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Makes sure that the file is on disk; safe to call twice."""
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
