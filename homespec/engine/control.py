"""What an engine knows about speed, from request to request, and the controller that each request gets."""

from __future__ import annotations

from collections.abc import Sequence

from homespec.calibration.curve import RunningCurve
from homespec.calibration.store import Calibration
from homespec.contracts import Drafter
from homespec.drafting.arm import Arm
from homespec.drafting.control import Controller
from homespec.drafting.draft_model import DraftModelDrafter
from homespec.drafting.ledger import Ledger
from homespec.engine.experience import Experience
from homespec.engine.forecast import first_guess


class Control:
    """The measured costs and the experience with each drafter.

    Experience is kept on disk from run to run, for each pair of calibrated models. Pinned, none of it has a
    say, and times come from the stored curve: the same request is then answered in the same steps.

    Attributes:
        longest_draft: that `--strict` allows; None without it.
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
        self._plain_seconds = costs.curve.plain_seconds
        self._draft_costs = [calibration.drafter for calibration in calibrations[1:] if calibration.drafter]
        self._pinned = pinned
        self._arms: dict[str, Arm] = {}
        self._experience = Experience(calibrations)
        self._gains = self._experience.recall_gains()
        self._ledger = Ledger(gains=self._gains)
        if not pinned:
            self._experience.recall_costs(self._curve)
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
            self._ledger = Ledger()
        arms = [self._arm(drafter, sampled_drafts=sampled_drafts) for drafter in drafters]
        if self.longest_draft is not None:
            max_length = min(max_length, self.longest_draft)
        return Controller(self._curve, arms, max_length, self._ledger, pinned=self._pinned)

    def foretell(self, kind: str, depth_tokens: int, *, looks_up: bool) -> tuple[float, float]:
        """Tokens per second of plain decoding, and of what the controller will make of it.

        Args:
            kind: of the text, as the controller knows it.
            depth_tokens: of the context, about the middle of the reply.
            looks_up: n-gram lookup is among the drafters.
        """
        plain = 1 / self._curve.seconds(1, depth_tokens)
        gain = self._gains.get(kind)
        copies_of = kind if looks_up else None
        speedup = gain.speedup if gain else first_guess(self._curve, self._draft_costs, copies_of)
        return plain, plain * speedup

    def _arm(self, drafter: Drafter, *, sampled_drafts: bool) -> Arm:
        arm = self._arms.get(drafter.name)
        if arm is None:
            arm = self._arms[drafter.name] = Arm(drafter)
            if isinstance(drafter, DraftModelDrafter):
                costs = self._draft_costs[0]
                arm.token_steps, arm.catch_up_steps = costs.in_plain_steps(self._plain_seconds)
            if not self._pinned:
                self._experience.recall_arm(arm)
        arm.drafter = drafter
        if isinstance(drafter, DraftModelDrafter):
            arm.behind = drafter.behind
            arm.deterministic = not sampled_drafts
        return arm

    def save(self) -> None:
        """Keeps what was learned for later runs."""
        if not self._pinned and self._arms:
            self._experience.save(self._curve, self._arms, self._gains)
