"""Cost curves made up at will."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from homespec.drafting.arm import Arm
from homespec.drafting.control import Controller
from homespec.records import StepRecord


@dataclass
class MadeUpCosts:
    """Implements `CostModel` by a function of the width."""

    curve: Callable[[int], float]
    observed: list[tuple[int, float]] = field(default_factory=list)

    def seconds(self, width: int, depth_tokens: int) -> float:
        return self.curve(width)

    def observe(self, width: int, depth_tokens: int, seconds: float) -> None:
        self.observed.append((width, seconds))


def flat(width: int) -> float:
    """A GPU: verifying is free."""
    return 1.0


def steep(width: int) -> float:
    """Verifying is as dear as decoding plainly."""
    return float(width)


def typical(width: int) -> float:
    """Like a Q4_K_M target on two AVX2 cores, with the jump at 8 that was measured there."""
    return 1 + 0.45 * (width - 1) + (1.2 if width >= 8 else 0)


def pinned(curve: Callable[[int], float], *arms: Arm, max_length: int = 6) -> Controller:
    """A controller that lives by the curve alone."""
    return Controller(MadeUpCosts(curve), arms, max_length, pinned=True)


def seconds_of(steps: list[StepRecord], curve: Callable[[int], float], token_seconds: float = 0.0) -> float:
    """What the steps would have taken by the curve."""
    return sum(curve(step.width) for step in steps) + token_seconds * sum(
        step.num_draft_tokens for step in steps if step.drafter == "draft-model"
    )
