"""Calibrates opened models in one go, within one time budget, and stores what was found."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from homespec.calibration.measure import Form, Progress, measure_drafter, measure_target
from homespec.calibration.store import Calibration, CalibrationKey, store_calibration
from homespec.contracts import TokenModel

_logger = logging.getLogger(__name__)
# Draft models need two figures and are small; the target gets what they leave.
_DRAFTER_SHARE = 0.15


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
