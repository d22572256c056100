"""Calibrations of the models that a preparation opens: from disk, or measured now."""

from __future__ import annotations

from homespec.calibration.measure import QUICK, Form, Progress
from homespec.calibration.run import Subject, calibrate
from homespec.calibration.store import Calibration, CalibrationKey, load_calibration, make_key
from homespec.engine.opening import Opened
from homespec.engine.preparing import Candidate, Preparation


def calibration_keys(preparation: Preparation) -> list[CalibrationKey]:
    """The target's key, and the draft model's where one is planned."""
    settings, option = preparation.settings, preparation.option

    def key(candidate: Candidate, kv_type: str) -> CalibrationKey:
        return make_key(
            candidate.model.path,
            num_threads=settings.num_threads,
            num_batch_threads=settings.num_batch_threads,
            kv_type=kv_type,
            repack=settings.repack,
            mmap=settings.mmap,
        )

    keys = [key(preparation.target, settings.kv_type)]
    if preparation.draft is not None and option.kind == "draft":
        keys.append(key(preparation.draft, option.draft_kv_type))
    return keys


def stored_calibrations(preparation: Preparation) -> list[Calibration | None]:
    """What is stored under the keys."""
    return [load_calibration(key) for key in calibration_keys(preparation)]


def measure_calibrations(
    preparation: Preparation, opened: Opened, form: Form, progress: Progress
) -> list[Calibration]:
    """Measures the opened models, and stores what was found; in the order of the keys.

    Raises:
        DecodeAbortedError: stopped on request.
        CacheRollbackError: the target cannot take tokens back.
    """
    models = [(preparation.target, opened.target, "target"), (preparation.draft, opened.draft, "drafter")]
    subjects = [
        Subject(model.context, role, key, candidate.model.path.name, candidate.facts.quantization)  # type: ignore[arg-type]
        for key, (candidate, model, role) in zip(calibration_keys(preparation), models, strict=False)
        if candidate is not None and model is not None
    ]
    return calibrate(subjects, form, progress)


def ensure_calibrated(
    preparation: Preparation, opened: Opened, progress: Progress
) -> list[Calibration] | None:
    """What is stored, or else a quick measurement; None where it is needed and not wanted.

    Raises:
        DecodeAbortedError, CacheRollbackError: see `measure_calibrations`.
    """
    stored = stored_calibrations(preparation)
    target, drafters = stored[0], stored[1:]
    if target is not None and target.target is not None and all(d and d.drafter for d in drafters):
        return [found for found in stored if found is not None]
    if not preparation.settings.calibrate:
        return None
    return measure_calibrations(preparation, opened, QUICK, progress)
