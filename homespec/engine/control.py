"""What an engine knows about speed, from request to request, and the controller that each request gets."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from homespec.calibration.curve import RunningCurve
from homespec.calibration.store import Calibration, calibration_path
from homespec.contracts import Drafter
from homespec.drafting.acceptance import AcceptanceModel
from homespec.drafting.control import Arm, Budget, Controller, Tally
from homespec.drafting.draft_model import DraftModelDrafter
from homespec.runtime.state import state_directory, write_atomically

_logger = logging.getLogger(__name__)


class Control:
    """The measured costs and the experience with each drafter.

    Experience is kept on disk from run to run, for each pair of calibrated models. Pinned, it is neither read
    nor written, and times come from the stored curve: the same request is then answered in the same steps.
    """

    def __init__(
        self, calibrations: Sequence[Calibration], context_tokens: int, *, pinned: bool, strict: bool
    ) -> None:
        """Starts from what earlier runs learned.

        Args:
            calibrations: of the target, and of the draft model if there is one.
            context_tokens: of the target.
            pinned: see above.
            strict: only widths that were proven to give the logits of plain decoding.
        """
        costs = calibrations[0].target
        assert costs is not None
        self._curve = RunningCurve(costs.curve)
        self._plain_seconds = costs.curve.seconds(1, costs.curve.depths_tokens[0])
        self._draft_costs = [calibration.drafter for calibration in calibrations[1:] if calibration.drafter]
        self._budget = Budget()
        self._pinned = pinned
        self._arms: dict[str, Arm] = {}
        names = "+".join(calibration_path(calibration.key).stem for calibration in calibrations)
        self._path = state_directory() / "experience" / f"{names}.json"
        self._experience: dict[str, Any] = {} if pinned else self._load()
        self.longest_draft: int | None = None
        if strict:
            equal, width = costs.equal_widths(context_tokens), 1
            while width + 1 in equal:
                width += 1
            self.longest_draft = width - 1

    def controller(self, drafters: Sequence[Drafter], max_length: int, *, sampled_drafts: bool) -> Controller:
        """For one request.

        Args:
            drafters: of the request.
            max_length: of a draft.
            sampled_drafts: a draft model draws its tokens at random.
        """
        if self._pinned:
            self._arms.clear()
            self._budget = Budget()
        arms = [self._arm(drafter, sampled_drafts=sampled_drafts) for drafter in drafters]
        if self.longest_draft is not None:
            max_length = min(max_length, self.longest_draft)
        return Controller(self._curve, arms, max_length, self._budget, pinned=self._pinned)

    def _arm(self, drafter: Drafter, *, sampled_drafts: bool) -> Arm:
        arm = self._arms.get(drafter.name)
        if arm is None:
            arm = self._arms[drafter.name] = Arm(drafter)
            if isinstance(drafter, DraftModelDrafter):
                costs = self._draft_costs[0]
                arm.token_steps = costs.seconds_per_token / self._plain_seconds
                arm.catch_up_steps = 1 / costs.prefill_tokens_per_second / self._plain_seconds
            self._recall(arm)
        arm.drafter = drafter
        if isinstance(drafter, DraftModelDrafter):
            arm.behind = drafter.behind
            arm.deterministic = not sampled_drafts
        return arm

    def _recall(self, arm: Arm) -> None:
        known = self._experience.get(arm.drafter.name)
        if known is None:
            return
        with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
            acceptance = {kind: _acceptance(model) for kind, model in known["acceptance"].items()}
            tallies = {kind: Tally(**tally) for kind, tally in known["tallies"].items()}
            arm.usual_acceptance = float(known["usual_acceptance"])
            arm.acceptance, arm.tallies = acceptance, tallies

    def _load(self) -> dict[str, Any]:
        try:
            known = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}  # Nothing learned yet, or nothing that can be read: it is learned anew.
        return known if isinstance(known, dict) else {}

    def save(self) -> None:
        """Keeps what was learned for later runs; a disk that cannot be written loses it, and nothing else."""
        if self._pinned or not self._arms:
            return
        known = {
            name: {
                "acceptance": {kind: asdict(model) for kind, model in arm.acceptance.items()},
                "usual_acceptance": arm.usual_acceptance,
                "tallies": {kind: asdict(tally) for kind, tally in arm.tallies.items()},
            }
            for name, arm in self._arms.items()
        }
        try:
            write_atomically(self._path, json.dumps({**self._experience, **known}, indent=1))
        except OSError as error:
            _logger.debug("What was learned could not be kept: %s", error)


def _acceptance(known: dict[str, Any]) -> AcceptanceModel:
    # JSON knows no tuples.
    return AcceptanceModel(known["intercept"], known["slope"], tuple(known["variances"]))
