"""Where the randomness of a request comes from."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from homespec.records import TokenDistribution
from homespec.sampling.distributions import draw

_Bits = npt.NDArray[np.uint64]

_MASK = 2**64 - 1
_GOLDEN_GAMMA = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB


class SeededChance:
    """A `Chance` on one random generator, shared by everything that draws for the request."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def happens(self, probability: float) -> bool:
        """True with the given probability; a certain event uses no randomness, so plain steps draw once."""
        return probability >= 1 or self._generator.random() < probability

    def choose(self, distribution: TokenDistribution, position: int) -> int:
        """A token drawn from the distribution; the stream of the generator decides, not the position."""
        return draw(distribution, self._generator.random())


class SharedNoise:
    """Draws tokens with noise that belongs to (seed, position, token id) and to nothing else.

    Each token gets an exponential waiting time with its probability as the rate, and the first to arrive is
    chosen: the Gumbel-max trick in another scale. Whoever draws at the same position with the same seed, from
    whatever distribution and vocabulary, meets the same noise: a draft model and the target often choose
    alike, and the target's choice does not depend on the draft (Daliri, Musco, Suresh 2408.07978).

    It has the `choose` of a `Chance` and, with no state, no `happens`: acceptance is equality.
    """

    def __init__(self, seed: int) -> None:
        self._key = _mix_int(seed)

    def choose(self, distribution: TokenDistribution, position: int) -> int:
        """The token drawn at an absolute position; the same arguments always give the same token."""
        noise = exponential_noise(
            _mix_int(self._key + position * _GOLDEN_GAMMA), distribution.ids.view(np.uint64)
        )
        with np.errstate(divide="ignore", over="ignore"):  # Tokens of (nearly) no probability never arrive.
            noise /= distribution.weights
        return int(distribution.ids[noise.argmin()])


def exponential_noise(key: int, ids: _Bits) -> npt.NDArray[np.float64]:
    """Standard exponential noise for token ids: output number id of the SplitMix64 generator seeded by `key`.

    SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014)
    can be entered anywhere, so only the ids of the support are evaluated.

    Returns:
        Shape (n,), float64, above zero and finite.
    """
    bits = ids * np.uint64(_GOLDEN_GAMMA)
    bits += np.uint64((key + _GOLDEN_GAMMA) & _MASK)
    scratch = bits >> np.uint64(30)
    bits ^= scratch
    bits *= np.uint64(_MIX_1)
    np.right_shift(bits, np.uint64(27), out=scratch)
    bits ^= scratch
    bits *= np.uint64(_MIX_2)
    np.right_shift(bits, np.uint64(31), out=scratch)
    bits ^= scratch
    # The upper 52 bits become the fraction of a float64 in [1, 2). Taking 1 - 2^-53 away is exact and leaves
    # an odd multiple of 2^-53 between 0 and 1, never either of them.
    bits >>= np.uint64(12)
    bits |= np.uint64(0x3FF0000000000000)
    noise = bits.view(np.float64)
    noise -= 1 - 2**-53
    np.log(noise, out=noise)
    return np.negative(noise, out=noise)


def _mix_int(value: int) -> int:
    """The SplitMix64 finaliser on one integer, taken modulo 2^64."""
    value &= _MASK
    value = ((value ^ (value >> 30)) * _MIX_1) & _MASK
    value = ((value ^ (value >> 27)) * _MIX_2) & _MASK
    return value ^ (value >> 31)
