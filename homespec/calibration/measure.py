"""Measures what decodes cost, and whether their rows depend on the width, on an opened model."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
import numpy.typing as npt

from homespec.calibration.costs import FIRST_BLOCK_TOKENS, DrafterCosts, TargetCosts, WidthEquality
from homespec.calibration.curve import CostCurve
from homespec.contracts import TokenModel
from homespec.records import FloatArray

Clock = Callable[[], float]
Progress = Callable[[float], None]
"""Told the share of the work that is done, 0 to 1."""

MIN_SAMPLES = 2
_SEED = 20_260_101
# Up to here no width is left out while others are measured: draft lengths that pay nearly everywhere.
_USUAL_WIDTH = 8
# Shares of the time budget: the first prefill, all that happens behind the first depth, the second prefill.
_PREFILL_SHARE, _SHALLOW_SHARE, _DEEPEN_SHARE = 0.15, 0.6, 0.25
# A prefill makes at least so many tokens while one token is decoded alone.
_PREFILL_ADVANTAGE = 3
_CHUNK_TOKENS = 64
# The most that depth may add to a row of one width, relative to the median of all.
_MOST_ADDED = 2.0


@dataclass(frozen=True, slots=True)
class Form:
    """How thorough a calibration is.

    Attributes:
        widths: to be measured; the model must have been opened for that many rows.
        depths_tokens: cached tokens before the measured decodes.
        budget_seconds: for all models together.
        max_samples: of each width.
        thorough: whether it is the long form.
    """

    widths: tuple[int, ...]
    depths_tokens: tuple[int, int]
    budget_seconds: float
    max_samples: int
    thorough: bool


_WIDTHS = (*range(1, 17), 20, 24, 28, 32, 48, 64)
QUICK = Form(_WIDTHS, (64, 1024), budget_seconds=14, max_samples=3, thorough=False)
THOROUGH = Form(_WIDTHS, (64, 4096), budget_seconds=300, max_samples=9, thorough=True)


def measure_target(
    context: TokenModel,
    *,
    widths: Iterable[int],
    depths_tokens: tuple[int, int],
    budget_seconds: float,
    max_samples: int = QUICK.max_samples,
    progress: Progress = lambda share: None,
    clock: Clock = perf_counter,
) -> TargetCosts:
    """Measures the cost curve and the width equality of a target.

    Every kept width is measured at least twice. On a slow machine fewer widths are kept (above 8 the odd ones
    go first, then those that are no multiple of 4, and so on; below 8 the largest) and the second depth is
    nearer, or is left out: the curve then has one.

    Args:
        context: an opened model; what its KV cache holds is dropped, and it is empty afterwards.
        widths: to be measured; 1 is added.
        depths_tokens: cached tokens before the decodes, about.
        budget_seconds: not exceeded by much more than a decode.
        max_samples: of each width.
        progress: told how far it is.
        clock: seconds that have passed.

    Raises:
        DecodeAbortedError: stopped on request.
        CacheRollbackError: the model cannot take tokens back.
    """
    probe = _Probe(context, clock, budget_seconds, progress)
    try:
        single_seconds = probe.warm_up()
        near = min(
            depths_tokens[0],
            max(8, int(_PREFILL_SHARE * budget_seconds * _PREFILL_ADVANTAGE / single_seconds)),
            context.context_tokens // 4,
        )
        rate = near / probe.fill(near)
        wanted = _by_worth({1, *widths}, context.context_tokens - near)
        num_rows = _affordable_rows(wanted, single_seconds, budget_seconds)
        shallow = _Samples(probe, np.empty((num_rows, context.vocab_size), dtype=np.float32))
        far = min(depths_tokens[1], context.context_tokens - 2 * max(wanted))
        # A second depth in the cache's first block teaches nothing: the attention there costs the same.
        reachable = near + rate * _DEEPEN_SHARE * budget_seconds
        deepens = min(far, reachable) > FIRST_BLOCK_TOKENS
        share = _SHALLOW_SHARE if deepens else 1.0
        _measure_shallow(shallow, wanted, share * budget_seconds, max_samples)

        deep: _Samples | None = None
        if deepens:
            filled = probe.fill(far, limit_seconds=_DEEPEN_SHARE * budget_seconds)
            far = context.num_cached_tokens
            rate = max(rate, (far - near) / filled)
            deep = _measure_deep(probe, shallow, budget_seconds, max_samples)
        curve = _curve(shallow, deep, (near, far if deep else near))
        equality = (*shallow.equality, *(deep.equality if deep else ()))
        progress(1.0)
        return TargetCosts(curve, rate, equality)
    finally:
        context.truncate(0)


def measure_drafter(
    context: TokenModel,
    *,
    budget_seconds: float,
    max_samples: int = 2 * QUICK.max_samples,
    progress: Progress = lambda share: None,
    clock: Clock = perf_counter,
) -> DrafterCosts:
    """Measures a draft model, which decodes one token after another and needs only the last row.

    Args:
        context: an opened model; its KV cache is empty afterwards.
        budget_seconds: not exceeded by much more than a decode.
        max_samples: of each figure.
        progress: told how far it is.
        clock: seconds that have passed.

    Raises:
        DecodeAbortedError: stopped on request.
    """
    return measure_drafters(
        [context], budget_seconds=budget_seconds, max_samples=max_samples, progress=progress, clock=clock
    )[0]


def measure_drafters(
    contexts: Sequence[TokenModel],
    *,
    budget_seconds: float,
    max_samples: int,
    progress: Progress = lambda share: None,
    clock: Clock = perf_counter,
) -> list[DrafterCosts]:
    """Measures several draft models by turns, so that their costs compare whatever else the machine does.

    Args:
        contexts: opened models; see `measure_drafter` for them and the rest.
        budget_seconds: for all together.
        max_samples: of each figure.
        progress: told how far it is.
        clock: seconds that have passed.

    Raises:
        DecodeAbortedError: stopped on request.
    """
    probes = [_Probe(context, clock, budget_seconds, progress) for context in contexts]
    try:
        rates = []
        for probe in probes:
            probe.warm_up()
            depth = min(QUICK.depths_tokens[0], probe.context.context_tokens // 4)
            rates.append(depth / probe.fill(depth))
        times: list[dict[int, list[float]]] = [{1: [], 2: []} for _ in probes]
        for number in range(max_samples):
            if number >= MIN_SAMPLES and probes[0].elapsed() > budget_seconds:
                break
            for probe, taken in zip(probes, times, strict=True):
                for width, seconds in taken.items():
                    seconds.append(probe.decode(width, rows=1)[0])
        progress(1.0)
        return [
            DrafterCosts(statistics.median_low(taken[1]), statistics.median_low(taken[2]), rate)
            for taken, rate in zip(times, rates, strict=True)
        ]
    finally:
        for context in contexts:
            context.truncate(0)


class _Probe:
    """Times decodes of random tokens."""

    def __init__(self, context: TokenModel, clock: Clock, budget_seconds: float, progress: Progress) -> None:
        self._clock = clock
        self._start = clock()
        self._budget_seconds = max(budget_seconds, 1e-9)
        self._progress = progress
        self.context = context
        source = random.Random(_SEED)
        self._tokens = [source.randrange(context.vocab_size) for _ in range(context.context_tokens)]

    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._start

    def warm_up(self) -> float:
        """Reads the weights into memory once, and gives the seconds of one token with warm weights."""
        self.context.truncate(0)
        self.decode(1, keep=True)
        seconds, _ = self.decode(1, keep=True)
        self.context.truncate(0)
        return seconds

    def fill(self, depth_tokens: int, limit_seconds: float = float("inf")) -> float:
        """Fills the KV cache up to a depth, at least by a chunk, or until time is up; gives the seconds."""
        start = self._clock()
        while (cached := self.context.num_cached_tokens) < depth_tokens:
            self.context.decode(self._tokens[cached : min(depth_tokens, cached + _CHUNK_TOKENS)], rows="none")
            self._tell()
            if self._clock() - start > limit_seconds:
                break
        return max(self._clock() - start, 1e-9)

    def decode(self, width: int, *, rows: int | None = None, keep: bool = False) -> tuple[float, FloatArray]:
        """Decodes `width` tokens; gives the seconds and the rows, valid until the next decode.

        Args:
            width: tokens.
            rows: 1 for the last row only, None for all.
            keep: leave them in the KV cache.
        """
        cached = self.context.num_cached_tokens
        tokens = self._tokens[cached : cached + width]
        start = self._clock()
        logits = self.context.decode(tokens, rows="last" if rows == 1 else "all")
        seconds = self._clock() - start
        if not keep:
            self.context.truncate(cached)
        self._tell()
        return seconds, logits

    def _tell(self) -> None:
        self._progress(min(1.0, self.elapsed() / self._budget_seconds))


@dataclass
class _Samples:
    """Times by width behind one depth, and the rows of single decodes to compare with.

    Attributes:
        probe: at the depth.
        rows: of single decodes, which are made to begin with; wider decodes are not compared. One array
            serves both depths: it takes as much memory as llama.cpp's own rows, which the planner counts.
        seconds: width -> its times.
        equality: the comparisons, one for each width but 1.
    """

    probe: _Probe
    rows: npt.NDArray[np.float32]
    seconds: dict[int, list[float]] = field(default_factory=dict)
    equality: list[WidthEquality] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Their times do not count: made one after another, they would all share one disturbance.
        self._depth = self.probe.context.num_cached_tokens
        for row in self.rows:
            row[:] = self.probe.decode(1, keep=True)[1][0]
        self.probe.context.truncate(self._depth)

    def median(self, width: int) -> float:
        """The lower median: of two times the one that was disturbed less."""
        return statistics.median_low(self.seconds[width])

    def measure(self, width: int) -> float:
        """One more time of a width; the first is compared as well."""
        seconds, logits = self.probe.decode(width)
        times = self.seconds.setdefault(width, [])
        times.append(seconds)
        if width > 1 and len(times) == 1 and width <= len(self.rows):
            self.equality.append(_compare(self._depth, logits, self.rows[:width]))
        return seconds

    def measure_all(self, widths: Sequence[int], deadline_seconds: float, max_samples: int) -> None:
        """Measures widths in rounds until each has `max_samples`, or time is up and each has two."""
        order = list(widths)
        source = random.Random(_SEED)
        while True:
            due = [width for width in order if len(self.seconds.get(width, ())) < max_samples]
            if not due:
                return
            # Another order in each round: a machine that heats up or gets busy would bend the curve.
            # All gains are relative to width 1, so it is measured twice.
            due += [1] * (1 in due)
            source.shuffle(due)
            for width in due:
                enough = len(self.seconds.get(width, ())) >= MIN_SAMPLES
                if not enough or self.probe.elapsed() < deadline_seconds:
                    self.measure(width)
            if self.probe.elapsed() >= deadline_seconds and all(
                len(self.seconds[width]) >= MIN_SAMPLES for width in order
            ):
                return


def _measure_shallow(
    samples: _Samples, wanted: Sequence[int], deadline_seconds: float, max_samples: int
) -> None:
    """A first round that finds the widths for which there is time, and further rounds over those."""
    kept: list[int] = []
    round_seconds = 0.0
    for width in wanted:
        if len(kept) >= MIN_SAMPLES:
            nearest = max(other for other in kept if other < width)
            # Tokens decoded together cost less than each alone; half of the additional ones is usual.
            guess = samples.median(nearest) * (1 + (width / nearest - 1) / 2)
            left = deadline_seconds - samples.probe.elapsed()
            if (MIN_SAMPLES - 1) * round_seconds + MIN_SAMPLES * guess > left:
                continue
        kept.append(width)
        round_seconds += samples.measure(width)
    samples.measure_all(kept, deadline_seconds, max_samples)


def _measure_deep(probe: _Probe, shallow: _Samples, deadline_seconds: float, max_samples: int) -> _Samples:
    """The widths for which there is time: powers of two first, then all."""
    left_seconds = deadline_seconds - probe.elapsed()
    chosen: list[int] = []
    for width in sorted(shallow.seconds, key=lambda w: (w & (w - 1) != 0, w)):
        tried = [*chosen, width]
        num_rows = min(max(tried), len(shallow.rows))
        seconds = MIN_SAMPLES * sum(shallow.median(w) for w in tried) + num_rows * shallow.median(1)
        if len(chosen) < 2 or seconds < left_seconds:
            chosen = tried
    deep = _Samples(probe, shallow.rows[: max(chosen)])
    deep.measure_all(chosen, deadline_seconds, max_samples)
    return deep


def _by_worth(widths: Iterable[int], most: int) -> list[int]:
    """Widths in the order in which they are given up last: 1 to 8, then the roundest numbers."""
    usable = (width for width in widths if 1 <= width <= most)
    return sorted(usable, key=lambda w: (w > _USUAL_WIDTH, -(w & -w) if w > _USUAL_WIDTH else 0, w))


def _affordable_rows(widths: Sequence[int], single_seconds: float, budget_seconds: float) -> int:
    """How many single decodes may be made for comparison: up to the largest width, in 15% of the time."""
    most = max(2, int(_PREFILL_SHARE * budget_seconds / single_seconds))
    return max((width for width in widths if width <= most), default=1)


def _curve(shallow: _Samples, deep: _Samples | None, depths_tokens: tuple[int, int]) -> CostCurve:
    """The medians as a curve; what was not measured behind the second depth follows from what was.

    Attention is the only part that grows with the depth, and it grows with every row about alike. A second
    depth that seems cheaper is noise, and one that seems to cost many times the other widths' is too.
    """
    widths = tuple(sorted(shallow.seconds))
    near = {width: shallow.median(width) for width in widths}
    added: dict[int, float] = {}
    if deep is not None:
        added = {width: max(0.0, deep.median(width) - near[width]) for width in deep.seconds}
    per_row = statistics.median_low([value / width for width, value in added.items()]) if added else 0.0
    far = {}
    for width in widths:
        usual = per_row * width
        far[width] = near[width] + min(added.get(width, usual), _MOST_ADDED * usual)
    return CostCurve(
        widths, depths_tokens, tuple(near[width] for width in widths), tuple(far[width] for width in widths)
    )


def _compare(depth_tokens: int, logits: FloatArray, reference: npt.NDArray[np.float32]) -> WidthEquality:
    equal, distance = True, 0.0
    for row, single in zip(logits, reference, strict=True):
        if not np.array_equal(row, single):
            equal = False
            distance = max(distance, float(np.abs(_probabilities(row) - _probabilities(single)).sum() / 2))
    return WidthEquality(len(logits), depth_tokens, equal, distance)


def _probabilities(row: FloatArray) -> npt.NDArray[np.float32]:
    values = row.astype(np.float32)
    values -= values.max()
    np.exp(values, out=values)
    values /= values.sum()
    return values
