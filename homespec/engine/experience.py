"""What was learned about speed, from run to run: one file for each target, or pair, as it was calibrated."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from homespec.calibration.curve import RunningCurve
from homespec.calibration.store import Calibration, calibration_path
from homespec.drafting.acceptance import AcceptanceModel
from homespec.drafting.arm import Arm
from homespec.drafting.ledger import Gain, Tally
from homespec.runtime.atomic import write_atomically
from homespec.runtime.state import state_directory

_logger = logging.getLogger(__name__)
_NOT_IT = (ArithmeticError, AttributeError, KeyError, TypeError, ValueError)


class Experience:
    """Reads and writes the file. Whatever else lies in its place is as good as nothing."""

    def __init__(self, calibrations: Sequence[Calibration]) -> None:
        """Reads what earlier runs learned.

        Args:
            calibrations: of the target, and of the draft model if there is one.
        """
        names = "+".join(calibration_path(calibration.key).stem for calibration in calibrations)
        self._path = state_directory() / "experience" / f"{names}.json"
        self._measured_at = calibrations[0].measured_at
        self._known: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            known = json.loads(self._path.read_text(encoding="utf-8"))
            self._known = known if isinstance(known, dict) else {}

    def recall_gains(self) -> dict[str, Gain]:
        """How fast each kind of text went."""
        with contextlib.suppress(*_NOT_IT):
            gains = {kind: Gain(**gain) for kind, gain in self._known["gains"].items()}
            if all(0 < gain.speedup < 100 and gain.replies >= 0 for gain in gains.values()):
                return gains
        return {}

    def recall_costs(self, curve: RunningCurve) -> None:
        """Corrects the curve; what was learned before the last calibration is about another one."""
        with contextlib.suppress(*_NOT_IT):
            if self._known["measured_at"] == self._measured_at:
                curve.recall(self._known["costs"])

    def recall_arm(self, arm: Arm) -> None:
        """What is known about its drafter."""
        with contextlib.suppress(*_NOT_IT):
            known = self._known["drafters"][arm.drafter.name]
            acceptance = {kind: _acceptance(model) for kind, model in known["acceptance"].items()}
            tallies = {kind: Tally(**tally) for kind, tally in known["tallies"].items()}
            arm.acceptance, arm.tallies = acceptance, tallies

    def save(self, curve: RunningCurve, arms: Mapping[str, Arm], gains: Mapping[str, Gain]) -> None:
        """Keeps everything for later runs; a disk that cannot be written loses it, and nothing else."""
        learned = {
            name: {
                "acceptance": {kind: asdict(model) for kind, model in arm.acceptance.items()},
                "tallies": {kind: asdict(tally) for kind, tally in arm.tallies.items()},
            }
            for name, arm in arms.items()
        }
        before = self._known.get("drafters")
        drafters = {**(before if isinstance(before, dict) else {}), **learned}
        known = {
            "drafters": drafters,
            "gains": {kind: asdict(gain) for kind, gain in gains.items()},
            "measured_at": self._measured_at,
            "costs": curve.to_json(),
        }
        try:
            write_atomically(self._path, json.dumps(known, indent=1))
        except OSError as error:
            _logger.debug("What was learned could not be kept: %s", error)


def _acceptance(known: dict[str, Any]) -> AcceptanceModel:
    # JSON knows no tuples.
    return AcceptanceModel(known["intercept"], known["slope"], tuple(known["variances"]))
