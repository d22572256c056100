"""Looks into a target once: its replies, what its decodes cost, and which tokens it uses."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from homespec.calibration.curve import CostCurve
from homespec.calibration.fingerprint import model_identity
from homespec.calibration.store import Calibration
from homespec.catalog.gguf_header import read_header
from homespec.catalog.store import ResolvedModel
from homespec.catalog.vocabulary import check_vocabularies
from homespec.engine.calibrating import stored_calibrations
from homespec.engine.diet.counting import count_useful
from homespec.engine.diet.judging import Finding, Judge
from homespec.engine.diet.passages import Prompt, collect
from homespec.engine.diet.replay import Expectation
from homespec.engine.diet.trial import Bench
from homespec.engine.engine import Engine
from homespec.engine.preparing import NGRAM
from homespec.engine.settings import EngineSettings
from homespec.errors import ConfigError, DecodeAbortedError
from homespec.runtime.binding import AbortFlag
from homespec.runtime.state import state_directory

# The target's replies may take this part of the time.
_REPLIES_SHARE = 0.4


@dataclass(slots=True)
class Job:
    """What to look into.

    Attributes:
        target: name or path.
        draft: name or path of the draft model; the target's own for self-speculation.
        prompts: that the target answers, see `passages.in_turn`.
        seconds: that it may take, about.
        memory_bytes: plan for a machine with this much memory; None for this one.
        texts: of the user, on which useful tokens are counted.
        abort: stops everything.
        tell: told what is being done, and the share of it.
    """

    target: str
    draft: str
    prompts: Sequence[Prompt]
    seconds: float
    memory_bytes: int | None = None
    texts: Sequence[str] = ()
    abort: AbortFlag = field(default_factory=AbortFlag)
    tell: Callable[[str, float], None] = lambda what, share: None
    _start: float = field(default_factory=perf_counter)

    def elapsed(self) -> float:
        """Seconds since it began."""
        return perf_counter() - self._start

    def heed(self) -> None:
        """Stops where that was asked for.

        Raises:
            DecodeAbortedError: it was.
        """
        if self.abort.is_set:
            raise DecodeAbortedError("Reducing was stopped.")


@dataclass(frozen=True, slots=True)
class Worth:
    """What draft models are worth for a target.

    Attributes:
        findings: name -> about it; the first is the one that the others are compared with.
        lookup: what the controller expects without a draft model.
        plain_seconds: of a plain step of the target.
        num_replies: by which they were judged.
    """

    findings: dict[str, Finding]
    lookup: Expectation
    plain_seconds: float
    num_replies: int


@dataclass(frozen=True, slots=True)
class Survey:
    """The target, looked into once.

    Attributes:
        settings: it was opened with.
        bench: with its replies.
        calibration: of its decodes.
        counts: of its tokens; empty where nobody asked.
    """

    settings: EngineSettings
    bench: Bench
    calibration: Calibration
    counts: Counter[int]

    @property
    def curve(self) -> CostCurve:
        """What its decodes cost."""
        assert self.calibration.target is not None
        return self.calibration.target.curve

    @property
    def counts_digest(self) -> str:
        """Tells apart what drafters with fewer tokens were made by."""
        return hashlib.sha256(repr(sorted(self.counts.items())).encode()).hexdigest()[:16]

    def judge(self, original: Path) -> Judge:
        """Judges draft models beside one; findings are kept as long as nothing changes that they hang on."""
        parts = (
            model_identity(original),
            self.calibration.key,
            self.calibration.measured_at,
            self.settings.memory_bytes,
            self.bench.passages,
        )
        memory = (
            state_directory() / "drafters" / f"{hashlib.sha256(repr(parts).encode()).hexdigest()[:24]}.json"
        )
        return Judge(self.bench, self.curve, original, self.settings, memory)

    def worth(self, judge: Judge, findings: dict[str, Finding]) -> Worth:
        """What was found, for people."""
        num_replies = sum(not passage.counted for passage in self.bench.passages)
        plain_seconds = self.curve.plain_seconds
        return Worth(findings, judge.lookup_alone(), plain_seconds, num_replies)


def make_survey(job: Job, draft: ResolvedModel, *, count: bool) -> Survey:
    """Opens the target, measures it if that was not done, lets it reply, and closes it.

    Args:
        job: what to look into.
        draft: that is going to be judged.
        count: count useful tokens as well.

    Raises:
        HomespecError: the target cannot be opened, or drafts for it would be of no use.
        DecodeAbortedError: stopped on request.
    """
    settings = EngineSettings(job.target, NGRAM, memory_bytes=job.memory_bytes)
    job.tell("opening the target", 0.0)
    with Engine(settings, abort=job.abort) as engine:
        header = engine.preparation.target.header
        check_vocabularies(header, read_header(draft.path))
        calibration = stored_calibrations(engine.preparation)[0]
        if calibration is None or calibration.target is None:
            raise ConfigError(
                f"What decodes of {job.target} cost is not known: {engine.plan.explanation}",
                hint=f"Run homespec calibrate {job.target} first.",
            )
        passages = collect(
            engine,
            job.prompts,
            lambda: job.elapsed() < _REPLIES_SHARE * job.seconds,
            lambda share: job.tell("having the target reply", share),
        )
        if {passage.counted for passage in passages} != {True, False}:
            raise ConfigError(
                "The target's replies are too few or too short to judge a draft model by.",
                hint='Give more prompts: --prompts FILE.jsonl with one {"prompt": ...} a line.',
            )
        bench = Bench(header, passages, job.abort)
        counts: Counter[int] = Counter()
        if count:
            job.tell("counting tokens", 0.0)
            counts = count_useful(bench, draft.path, job.texts, engine.vocabulary.tokenize)
    return Survey(settings, bench, calibration, counts)
