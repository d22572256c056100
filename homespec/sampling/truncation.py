"""Finding the largest few of many values without sorting them all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from homespec.records import FloatArray
from homespec.sampling.distributions import first_reaching

_BLOCK_TOKENS = 64
# The largest few logits of a language model mostly lie this close to the largest one.
_USUAL_DISTANCE = 15.0
# Successive guesses at how small a weight, relative to the largest, the nucleus may contain.
_NUCLEUS_BOUNDS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)

Indices = npt.NDArray[np.intp]


def largest(values: FloatArray, count: int, peak: float | None = None) -> Indices:
    """Indices of the `count` largest values, ascending; among equal values the lowest indices.

    Args:
        values: shape (n,), no NaN.
        count: at least 1; from n on, all are kept.
        peak: the largest value, where it is known: it spares a look at all of them.
    """
    if count >= values.size:
        return np.arange(values.size)
    bound = _lower_bound(values, count) if peak is None else peak - _USUAL_DISTANCE
    candidates = np.flatnonzero(values >= bound)
    if candidates.size < count:  # Only by a guess from the peak.
        candidates = np.flatnonzero(values >= _lower_bound(values, count))
    kept = values[candidates]
    if kept.size == count:
        return candidates
    cut = np.partition(kept, kept.size - count)[kept.size - count]
    chosen: Indices = candidates[kept >= cut]
    if chosen.size > count:  # Of those at the cut only the first.
        above = kept > cut
        above[np.flatnonzero(kept == cut)[: count - np.count_nonzero(above)]] = True
        chosen = candidates[above]
    return chosen


def nucleus_of_few(weights: Sequence[float], mass: float, floor: float) -> list[int]:
    """`nucleus` of so few weights that plain Python is faster than NumPy's calls."""
    kept: list[int] = []
    sum_kept = 0.0
    for index in sorted(range(len(weights)), key=lambda index: -weights[index]):
        if sum_kept >= mass or weights[index] < floor:
            break
        kept.append(index)
        sum_kept += weights[index]
    return sorted(kept)


def _lower_bound(values: FloatArray, count: int) -> float:
    """A value that the `count`-th largest is not below, near it when n is much larger than `count`.

    The `count`-th largest of the maxima of disjoint blocks: at least `count` values reach it.
    """
    block_size = max(1, min(_BLOCK_TOKENS, values.size // (4 * count)))
    num_blocks = values.size // block_size
    # Each column is a block: a maximum over rows runs through memory in order and in wide registers.
    maxima = values[: num_blocks * block_size].reshape(block_size, num_blocks).max(axis=0)
    return float(np.partition(maxima, num_blocks - count)[num_blocks - count])


def nucleus(weights: FloatArray, mass: float, floor: float) -> Indices:
    """Indices, ascending, of the fewest largest weights whose sum reaches `mass`, less those below `floor`.

    Both conditions keep the largest weights down to some cut, so they can be applied in either order as long
    as `mass` comes from the sum of all weights. Among equal weights the lowest indices come first.

    Args:
        weights: shape (n,), the largest is 1.
        mass: in the unit of the weights, above 0.
        floor: 0 to 1; 0 is none.
    """
    ceiling, sure_mass = np.inf, 0.0  # What reaches the ceiling is in the set, and has this mass.
    for bound in (*_NUCLEUS_BOUNDS, floor):
        candidates = np.flatnonzero(weights >= max(bound, floor))
        kept = weights[candidates]
        kept_mass = float(kept.sum(dtype=np.float64))
        if bound <= floor or kept_mass >= mass:
            break
        ceiling, sure_mass = bound, kept_mass
    layer = np.sort(kept[kept < ceiling])[::-1].astype(np.float64)
    if not layer.size:
        return candidates
    count = kept.size - layer.size + first_reaching(layer, mass - sure_mass, side="left") + 1
    return candidates[largest(kept, count)]
