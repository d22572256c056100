"""Calibrates opened models in one go, within one time budget, and stores what was found."""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

from homespec.calibration.measure import MIN_SAMPLES, Form, Progress, measure_drafter, measure_target
from homespec.calibration.store import Calibration, CalibrationKey, store_calibration
from homespec.contracts import TokenModel

_logger = logging.getLogger(__name__)
# Draft models need two figures and are small; the target gets what they leave.
_DRAFTER_SHARE = 0.15
# About where drafts pay most on the curves that were measured.
_TRIAL_WIDTH = 5
_TRIAL_DEPTH_TOKENS = 32
_TRIAL_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Subject:
    """An opened model that is to be calibrated.

    Attributes:
        context: its KV cache will be emptied.
        role: what it is used as.
        key: under which the result is stored.
        file_name, quantization: for people.
    """

    context: TokenModel
    role: Literal["target", "drafter"]
    key: CalibrationKey
    file_name: str
    quantization: str


def calibrate(
    subjects: Sequence[Subject], form: Form, progress: Progress = lambda share: None
) -> list[Calibration]:
    """Measures and stores; a disk that cannot be written costs a warning, and the next run its time.

    Args:
        subjects: draft models and at most one target, in any order.
        form: QUICK or THOROUGH, perhaps with fewer widths. The target must be open for that many rows.
        progress: told how far it is.

    Returns:
        The calibrations in the order of the subjects.

    Raises:
        DecodeAbortedError: stopped on request; nothing of the model in question is stored.
        CacheRollbackError: the target cannot take tokens back.
    """
    start = time.perf_counter()

    def tell(_share: float) -> None:
        progress(min(1.0, (time.perf_counter() - start) / form.budget_seconds))

    found: dict[int, Calibration] = {}
    for index, subject in sorted(enumerate(subjects), key=lambda pair: pair[1].role == "target"):
        left = form.budget_seconds - (time.perf_counter() - start)
        calibration = _measure(subject, form, left, tell)
        try:
            store_calibration(calibration)
        except OSError as error:
            _logger.warning("The calibration of %s could not be stored: %s.", subject.file_name, error)
        found[index] = calibration
    progress(1.0)
    return [found[index] for index in range(len(subjects))]


def _measure(subject: Subject, form: Form, left_seconds: float, progress: Progress) -> Calibration:
    target = drafter = None
    if subject.role == "target":
        target = measure_target(
            subject.context,
            widths=form.widths,
            depths_tokens=form.depths_tokens,
            budget_seconds=left_seconds,
            max_samples=form.max_samples,
            progress=progress,
        )
    else:
        drafter = measure_drafter(
            subject.context,
            budget_seconds=_DRAFTER_SHARE * form.budget_seconds,
            max_samples=2 * form.max_samples,
            progress=progress,
        )
    return Calibration(
        key=subject.key,
        file_name=subject.file_name,
        quantization=subject.quantization,
        measured_at=time.time(),
        thorough=form.thorough,
        target=target,
        drafter=drafter,
    )


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """What a number of threads is worth.

    Attributes:
        num_threads: that many.
        single_seconds: of a decode of one token.
        batch_seconds: of a decode of five.
    """

    num_threads: int
    single_seconds: float
    batch_seconds: float


def compare_threads(
    open_context: Callable[[int], AbstractContextManager[TokenModel]],
    candidates: Iterable[int],
    progress: Progress = lambda share: None,
) -> list[ThreadTimes]:
    """Decodes with several numbers of threads, in two rounds.

    Args:
        open_context: opens a small context (64 tokens, five rows) with so many threads.
        candidates: numbers of threads.
        progress: told how far it is.

    Raises:
        DecodeAbortedError: stopped on request.
    """
    counts = sorted(set(candidates))
    single: dict[int, list[float]] = {count: [] for count in counts}
    batch: dict[int, list[float]] = {count: [] for count in counts}
    for number in range(_TRIAL_ROUNDS):
        for index, count in enumerate(counts):
            with open_context(count) as context:
                context.decode([0] * _TRIAL_DEPTH_TOKENS, rows="none")
                for _ in range(MIN_SAMPLES):
                    single[count].append(_timed(context, 1))
                    batch[count].append(_timed(context, _TRIAL_WIDTH))
            progress((number + (index + 1) / len(counts)) / _TRIAL_ROUNDS)
    return [
        ThreadTimes(count, statistics.median_low(single[count]), statistics.median_low(batch[count]))
        for count in counts
    ]


def _timed(context: TokenModel, width: int) -> float:
    cached = context.num_cached_tokens
    start = time.perf_counter()
    context.decode([0] * width)
    seconds = time.perf_counter() - start
    context.truncate(cached)
    return seconds
