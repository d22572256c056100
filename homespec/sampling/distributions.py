"""Arithmetic on token distributions that are stored on their support."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from homespec.records import Draft, FloatArray, IntArray, TokenDistribution

_BLOCK_TOKENS = 512


@lru_cache(maxsize=8)
def full_support(num_tokens: int) -> IntArray:
    """Every token id from 0 on: shape (num_tokens,), int64, read-only, one shared array per size.

    Sharing it saves the array per row, and lets `residual` see by identity that two supports are aligned.
    """
    ids = np.arange(num_tokens, dtype=np.int64)
    ids.flags.writeable = False
    return ids


def one_hot(token: int) -> TokenDistribution:
    """The distribution of a token that is certain."""
    return TokenDistribution(np.array([token], dtype=np.int64), np.ones(1))


def proposal(draft: Draft, index: int) -> TokenDistribution:
    """The distribution that draft token `index` was drawn from; one-hot for a deterministic drafter."""
    return one_hot(draft.tokens[index]) if draft.probs is None else draft.probs[index]


def probability(distribution: TokenDistribution, token: int) -> float:
    """The probability of one token, 0 outside the support."""
    index = int(np.searchsorted(distribution.ids, token))
    if index < distribution.ids.size and distribution.ids[index] == token:
        return float(distribution.weights[index]) / distribution.total
    return 0.0


def draw(distribution: TokenDistribution, uniform: float) -> int:
    """Draws by the inverse of the cumulative distribution, in order of token ids.

    Args:
        distribution: at least one probability above zero.
        uniform: in [0, 1).

    Returns:
        A token whose probability is above zero.
    """
    weights = distribution.weights
    index = first_reaching(weights, uniform, side="right", of_sum=True)
    while weights[index] == 0:  # Only where a sum rounded down.
        index -= 1
    return int(distribution.ids[index])


def first_reaching(
    weights: FloatArray, height: float, side: Literal["left", "right"], *, of_sum: bool = False
) -> int:
    """The first index at which the running sum of `weights` reaches `height`, up to rounding of the sums.

    Args:
        weights: shape (n,), none below 0.
        height: at most their sum.
        side: as in `numpy.searchsorted`: "left" lets the sum equal the height, "right" has it exceed it.
        of_sum: the height is given as a part of the sum.
    """
    if weights.size <= _BLOCK_TOKENS:
        sums = weights.cumsum(dtype=np.float64)
        height = height * float(sums[-1]) if of_sum else height
        return min(int(sums.searchsorted(height, side=side)), weights.size - 1)
    # In two levels: a running sum over a whole vocabulary takes ten times as long as the sums of its blocks.
    starts = np.arange(0, weights.size, _BLOCK_TOKENS)
    cumulative = np.add.reduceat(weights, starts, dtype=np.float64).cumsum()
    if of_sum:
        height *= float(cumulative[-1])
    block = min(int(np.searchsorted(cumulative, height, side=side)), cumulative.size - 1)
    start = block * _BLOCK_TOKENS
    sums = weights[start : start + _BLOCK_TOKENS].cumsum(dtype=np.float64)
    rest = height - cumulative[block - 1] if block else height
    return start + min(int(sums.searchsorted(rest, side=side)), sums.size - 1)


def residual(
    target: TokenDistribution, draft: TokenDistribution, scale: float = 1.0
) -> tuple[TokenDistribution, float]:
    """What the target still has to give where the draft gave too little: max(scale * target - draft, 0).

    Leviathan et al. 2211.17192, section 2.3, for scale 1; Sun et al. 2403.10444, algorithm 2, in general.

    Returns:
        The residual, on the target's support, and its mass. Where the mass is zero the two distributions are
        equal up to rounding, and the target itself is returned.
    """
    missing, given = target.probs, draft.probs
    missing *= scale
    if target.ids is draft.ids:
        missing -= given
    elif draft.ids.size <= target.ids.size:
        positions, found = _locate(target.ids, draft.ids)
        missing[positions[found]] -= given[found]
    else:
        positions, found = _locate(draft.ids, target.ids)
        missing[found] -= given[positions[found]]
    np.maximum(missing, 0.0, out=missing)
    mass = float(missing.sum())
    if mass == 0.0:
        return target, 0.0
    return TokenDistribution(target.ids, missing), mass


def _locate(ids: IntArray, wanted: IntArray) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Where `wanted` ids stand in the ascending `ids`, and which of them do."""
    last = ids.size - 1
    # Strictly ascending from 0 to size - 1 is every id: each stands at its own index.
    is_full = ids[0] == 0 and ids[-1] == last
    positions = np.minimum(wanted if is_full else np.searchsorted(ids, wanted), last)
    return positions, ids[positions] == wanted
