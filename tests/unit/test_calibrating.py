"""Which draft models are known not to pay, by their calibrations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from homespec.calibration.costs import DrafterCosts, TargetCosts
from homespec.calibration.curve import CostCurve
from homespec.calibration.store import Calibration, CalibrationKey
from homespec.engine.forecast import is_hopeless

KEY = CalibrationKey("0" * 32, 2, 2, "f16", True, True, "llama 1, GCC", "A CPU", "2 cores")
WIDTHS = tuple(range(1, 17))


def calibrations(slope: float, draft_seconds: float) -> list[Calibration | None]:
    """A target whose step takes a second and `slope` more per further token, and a draft model."""
    seconds = tuple(1 + slope * (width - 1) for width in WIDTHS)
    target = TargetCosts(CostCurve(WIDTHS, (64, 64), seconds, seconds), 10.0, ())
    measured = Calibration(KEY, "model.gguf", "Q4_0", 0.0, False, target)
    drafter = DrafterCosts(draft_seconds, 2 * draft_seconds, 10.0)
    return [measured, replace(measured, target=None, drafter=drafter)]


@pytest.mark.parametrize(
    ("slope", "draft_seconds", "hopeless"),
    [
        (0.0, 0.1, False),
        (0.1, 0.2, False),
        (0.6, 0.25, False),
        (0.6, 0.32, True),  # most drafts begin by reading two tokens
        (0.66, 0.59, True),
        (1.0, 0.1, True),
        (0.0, 1.0, True),
    ],
)
def test_hopeless_draft_models(slope: float, draft_seconds: float, hopeless: bool) -> None:
    assert is_hopeless(calibrations(slope, draft_seconds)) == hopeless


def test_what_is_not_measured_is_not_hopeless() -> None:
    target, drafter = calibrations(1.0, 1.0)
    assert not is_hopeless([target, None])
    assert not is_hopeless([None, drafter])
