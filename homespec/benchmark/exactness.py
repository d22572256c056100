"""Where two greedy texts part, and whether that was a near tie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from homespec.engine.engine import Engine

NEAR_TIE_GAP = 0.5
"""llama.cpp's arithmetic depends on how many tokens are decoded at once. Two best logits that are closer than
this may change places by that; beyond it, a difference is a fault."""


def first_difference(expected: Sequence[int], found: Sequence[int]) -> int | None:
    """The position of the first token that differs, or that only one text has; None for equal texts."""
    pairs = enumerate(zip(expected, found, strict=False))
    at = next((i for i, (one, other) in pairs if one != other), min(len(expected), len(found)))
    return None if at == len(expected) == len(found) else at


def top_gap(engine: Engine, tokens: Sequence[int]) -> float:
    """How far the two best logits after some tokens are apart, in plain decoding."""
    best, second = np.sort(engine.next_logits(tokens))[-1:-3:-1]
    return float(best - second)
