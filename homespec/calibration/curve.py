"""The cost curve t(width) of one target decode, as measured and as real steps refine it.

Pure Python: plans are made from stored curves before NumPy or llama.cpp are imported.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# A line through two noisy points may fall steeply; no decode is faster than this share of a measured one.
_LEAST_SHARE = 0.5

# How far one real step moves the running estimates: the ratio that all widths share (throttling, another
# process), and the width's own. A shared shift is so found by whatever width is in use.
_SHARED_WEIGHT, _OWN_WEIGHT = 0.06, 0.12
# The first observations of a width count for more, since its stored figure may be a median of two.
_EARLY_OBSERVATIONS = 4
# What is usual is the mean of so many plain steps: some minutes of decoding.
_USUAL_STEPS = 2000
# So many observations of a width count when what widths have in common is averaged.
_COUNT_CAP = 20
# A step that differs by more than this factor from what was expected is taken for one that differs by it:
# a page fault or another process must not outweigh many undisturbed steps.
_CLIP = math.log(1.5)


@dataclass(frozen=True, slots=True)
class CostCurve:
    """Seconds of one target decode, by width, behind two context depths.

    Attributes:
        widths: measured widths, ascending, beginning with 1.
        depths_tokens: the two depths; equal when only one could be measured.
        shallow_seconds, deep_seconds: for each width, behind the first and the second depth.
    """

    widths: tuple[int, ...]
    depths_tokens: tuple[int, int]
    shallow_seconds: tuple[float, ...]
    deep_seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        ascending = all(a < b for a, b in zip(self.widths, self.widths[1:], strict=False))
        times = (*self.shallow_seconds, *self.deep_seconds)
        if not (
            self.widths
            and self.widths[0] == 1
            and ascending
            and len(self.shallow_seconds) == len(self.deep_seconds) == len(self.widths)
            and all(0 < seconds < math.inf for seconds in times)
            and 0 <= self.depths_tokens[0] <= self.depths_tokens[1]
        ):
            raise ValueError(f"not a cost curve: {self}")

    def seconds(self, width: int, depth_tokens: int) -> float:
        """Seconds of a decode of `width` tokens behind `depth_tokens` cached ones.

        Linear in the depth. Linear between measured widths, and beyond the last with the last slope or the
        mean one, whichever is steeper.
        """
        at = bisect_left(self.widths, width)
        if at < len(self.widths):
            right = self._measured(at, depth_tokens)
            if self.widths[at] == width or at == 0:
                return right
            left = self._measured(at - 1, depth_tokens)
            share = (width - self.widths[at - 1]) / (self.widths[at] - self.widths[at - 1])
            return left + share * (right - left)
        last = self._measured(-1, depth_tokens)
        if len(self.widths) == 1:
            return last * width  # Nothing is known: as if tokens were decoded one by one.
        before = self._measured(-2, depth_tokens)
        last_slope = (last - before) / (self.widths[-1] - self.widths[-2])
        # The last two points may lie on a flat stretch, which would promise wide decodes for nothing.
        mean_slope = (last - self._measured(0, depth_tokens)) / (self.widths[-1] - self.widths[0])
        return last + max(0.0, last_slope, mean_slope) * (width - self.widths[-1])

    @property
    def plain_seconds(self) -> float:
        """Of a decode of one token behind the first depth: the plain step that other times are counted in."""
        return self.seconds(1, self.depths_tokens[0])

    def to_json(self) -> dict[str, Any]:
        """Plain lists, for `from_json`."""
        return {
            "widths": list(self.widths),
            "depths_tokens": list(self.depths_tokens),
            "shallow_seconds": list(self.shallow_seconds),
            "deep_seconds": list(self.deep_seconds),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CostCurve:
        """The inverse of `to_json`.

        Raises:
            ValueError, KeyError, TypeError: it is not a curve.
        """
        shallow, deep = data["depths_tokens"]
        return cls(
            widths=tuple(int(width) for width in data["widths"]),
            depths_tokens=(int(shallow), int(deep)),
            shallow_seconds=tuple(float(seconds) for seconds in data["shallow_seconds"]),
            deep_seconds=tuple(float(seconds) for seconds in data["deep_seconds"]),
        )

    def _measured(self, index: int, depth_tokens: int) -> float:
        shallow, deep = self.shallow_seconds[index], self.deep_seconds[index]
        near, far = self.depths_tokens
        if near == far:
            return shallow
        value = shallow + (deep - shallow) * (depth_tokens - near) / (far - near)
        return max(value, _LEAST_SHARE * min(shallow, deep))


class RunningCurve:
    """A `contracts.CostModel`: a stored curve, corrected by the steps that were really made.

    The logarithm of measured over stored seconds is split into a part that all widths share and one of each
    width. Both follow the steps as clipped running means. The shared part is kept at the mean of the widths
    that were seen, which one that was not inherits. They remember some steps only, to follow the machine;
    what plain decoding usually costs is remembered for long.
    """

    def __init__(self, curve: CostCurve) -> None:
        self._curve = curve
        self._shared = 0.0
        self._own: dict[int, float] = {}
        self._counts: dict[int, int] = {}
        self._usual_plain = 0.0

    def seconds(self, width: int, depth_tokens: int) -> float:
        """See `CostModel.seconds`."""
        return self._curve.seconds(width, depth_tokens) * math.exp(self._ratio(width))

    def usual_plain_seconds(self, depth_tokens: int) -> float:
        """Of a decode of one token, whatever the last steps were like: for plans."""
        ratio = self._usual_plain if 1 in self._counts else self._shared
        return self._curve.seconds(1, depth_tokens) * math.exp(ratio)

    def observe(self, width: int, depth_tokens: int, seconds: float) -> None:
        """See `CostModel.observe`; what cannot be a duration is ignored."""
        if not 0 < seconds < math.inf:
            return
        surprise = math.log(seconds / self.seconds(width, depth_tokens))
        surprise = max(-_CLIP, min(_CLIP, surprise))
        count = self._counts[width] = self._counts.get(width, 0) + 1
        own_weight = max(_OWN_WEIGHT, 0.5 / count if count <= _EARLY_OBSERVATIONS else 0.0)
        self._shared += _SHARED_WEIGHT * surprise
        self._own[width] = self._own.get(width, 0.0) + own_weight * surprise
        self._center()
        if width == 1:
            self._usual_plain += (self._ratio(1) - self._usual_plain) / min(count, _USUAL_STEPS)

    def _ratio(self, width: int) -> float:
        return self._shared + self._own.get(width, 0.0)

    def _center(self) -> None:
        """Moves what the seen widths have in common to the shared part; their sums stay as they are."""
        weights = {width: min(count, _COUNT_CAP) for width, count in self._counts.items()}
        common = sum(weights[width] * own for width, own in self._own.items()) / sum(weights.values())
        self._shared += common
        for width in self._own:
            self._own[width] -= common

    def to_json(self) -> dict[str, Any]:
        """What was learned, for `recall`."""
        return {
            "shared": self._shared,
            "usual_plain": self._usual_plain,
            "widths": [[width, own, self._counts[width]] for width, own in self._own.items()],
        }

    def recall(self, data: Mapping[str, Any]) -> None:
        """Goes on from what another run learned about the same curve.

        Raises:
            ValueError, KeyError, TypeError: it is something else; nothing has changed then.
        """
        shared, usual_plain = float(data["shared"]), float(data["usual_plain"])
        learned = {int(width): (float(own), int(count)) for width, own, count in data["widths"]}
        if not all(map(math.isfinite, (shared, usual_plain, *(own for own, _ in learned.values())))):
            raise ValueError("a ratio is not finite")
        self._shared, self._usual_plain = shared, usual_plain
        self._own = {width: own for width, (own, _) in learned.items()}
        self._counts = {width: max(1, count) for width, (_, count) in learned.items()}
