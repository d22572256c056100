"""Calibrations of the models that a preparation opens: from disk, or measured now."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from homespec.calibration.fingerprint import fingerprint
from homespec.calibration.measure import QUICK, Form, Progress
from homespec.calibration.run import Subject, calibrate
from homespec.calibration.store import (
    Calibration,
    CalibrationKey,
    load_calibration,
    make_key,
    stale_calibrations,
)
from homespec.calibration.thread_trial import compare_threads
from homespec.calibration.threads import (
    ThreadComparison,
    load_comparison,
    store_comparison,
)
from homespec.engine.forecast import is_hopeless
from homespec.engine.opening import Opened, adopt_threads
from homespec.engine.preparing import NGRAM, Candidate, Preparation, prepare
from homespec.runtime.threads import thread_candidates
from homespec.telemetry.machine import is_busy

_logger = logging.getLogger(__name__)
# The most of a calibration's time that goes to comparing numbers of threads.
_THREADS_SHARE = 0.25


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

    First come the numbers of threads, where there is a choice: the models then run on, and are measured with,
    the fastest.

    Raises:
        DecodeAbortedError: stopped on request.
        CacheRollbackError: the target cannot take tokens back.
    """
    start = time.perf_counter()
    if _should_compare_threads(preparation, form):
        _compare_threads(preparation, opened, form, lambda share: progress(_THREADS_SHARE * share))
        adopt_threads(preparation, opened)
    # Half of the time is left at least, however slow the decodes with too many threads were.
    done = min(0.5, (time.perf_counter() - start) / form.budget_seconds)
    rest = replace(form, budget_seconds=(1 - done) * form.budget_seconds)
    models = [(preparation.target, opened.target, "target"), (preparation.draft, opened.draft, "drafter")]
    subjects = [
        Subject(model.context, role, key, candidate.model.path.name, candidate.facts.quantization)  # type: ignore[arg-type]
        for key, (candidate, model, role) in zip(calibration_keys(preparation), models, strict=False)
        if candidate is not None and model is not None
    ]
    return calibrate(subjects, rest, lambda share: progress(done + (1 - done) * share))


def thread_comparison(preparation: Preparation) -> ThreadComparison | None:
    """What the target's number of threads was chosen by; None where it was asked for or not measured."""
    if preparation.settings.num_threads is not None:
        return None
    return load_comparison(fingerprint(preparation.target.model.path))


def _should_compare_threads(preparation: Preparation, form: Form) -> bool:
    if preparation.settings.num_threads is not None or len(thread_candidates()) == 1:
        return False
    # Unasked, not while others keep the cores busy: each thread more then means waiting for them, and the
    # choice would outlast their work.
    return form.thorough or (thread_comparison(preparation) is None and not is_busy())


def _compare_threads(preparation: Preparation, opened: Opened, form: Form, progress: Progress) -> None:
    comparison = compare_threads(
        opened.target.context,
        thread_candidates(),
        budget_seconds=_THREADS_SHARE * form.budget_seconds,
        max_samples=2 * form.max_samples,
        progress=progress,
    )
    if comparison is None:
        return
    try:
        store_comparison(fingerprint(preparation.target.model.path), comparison)
    except OSError as error:
        _logger.warning("The best number of threads could not be stored: %s.", error)


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
    if (changes := _changes_since(calibration_keys(preparation), stored)) is not None:
        _logger.warning("What was measured before is for something else (%s).", changes)
    return measure_calibrations(preparation, opened, QUICK, progress)


def _changes_since(keys: Sequence[CalibrationKey], stored: Sequence[Calibration | None]) -> str | None:
    """What has changed since an earlier calibration of a model that has none now; None if there was none."""
    for key, found in zip(keys, stored, strict=True):
        others = stale_calibrations(key) if found is None else []
        if others:
            return key.changes(min(others, key=lambda other: len(key.differences(other.key))).key)
    return None


def leave_out_hopeless_draft(preparation: Preparation) -> Preparation:
    """With `--draft auto`, spares the memory of a draft model that is known not to pay on this machine.

    Known from stored calibrations: even if nearly all its tokens were accepted, drafting and verifying them
    would take longer than decoding plainly.
    """
    settings = preparation.settings
    if settings.draft != "auto" or settings.draft_length is not None or preparation.option.kind != "draft":
        return preparation
    if not is_hopeless(stored_calibrations(preparation)):
        return preparation
    assert preparation.draft is not None
    without = prepare(replace(settings, draft=NGRAM))
    name = preparation.draft.model.name
    why = f"{without.explanation} {name} was measured not to pay on this machine, however often it is right."
    return replace(without, settings=settings, explanation=why)
