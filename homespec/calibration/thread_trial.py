"""Measures what numbers of threads are worth, for `threads` to choose from."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from homespec.calibration.measure import MIN_SAMPLES, Clock, Progress
from homespec.calibration.threads import ThreadComparison, ThreadTimes
from homespec.contracts import TokenModel

# About where drafts pay most on the curves that were measured.
_TRIAL_WIDTH = 5
_DECODES_PER_SAMPLE = 3


class ThreadedModel(TokenModel, Protocol):
    """A model whose number of threads can change."""

    def set_threads(self, num_threads: int, num_batch_threads: int) -> None:
        """For decodes of one token, and of several."""


def compare_threads(
    context: ThreadedModel,
    candidates: Sequence[int],
    *,
    budget_seconds: float,
    max_samples: int,
    progress: Progress = lambda share: None,
    clock: Clock = perf_counter,
) -> ThreadComparison | None:
    """Decodes with several numbers of threads by turns.

    Args:
        context: opened for five rows; its KV cache is empty afterwards, and its number of threads any.
        candidates: the usual choice first.
        budget_seconds: not exceeded by much more than a decode with each of them.
        max_samples: of each figure.
        progress: told how far it is.
        clock: seconds that have passed.

    Returns:
        The comparison; None where the budget is too small for two samples of each figure.

    Raises:
        DecodeAbortedError: stopped on request.
    """
    trial = _Trial(context, budget_seconds, progress, clock, clock())
    usual = candidates[0]
    context.truncate(0)
    context.set_threads(usual, usual)
    trial.decode(1)  # reads the weights into memory
    round_seconds = len(candidates) * _DECODES_PER_SAMPLE * trial.decode(1)
    samples: dict[int, list[tuple[float, float]]] = {count: [] for count in candidates}
    for number in range(max_samples):
        num_needed = max(1, MIN_SAMPLES - number)
        if trial.elapsed() + num_needed * round_seconds > budget_seconds:
            break
        before = trial.elapsed()
        # Back and forth: a machine that heats up or gets busy is no candidate's disadvantage.
        for count in candidates if number % 2 == 0 else reversed(candidates):
            samples[count].append(trial.sample(count))
        round_seconds = trial.elapsed() - before
    if len(samples[usual]) < MIN_SAMPLES:
        return None
    return ThreadComparison(tuple(_times(count, taken) for count, taken in samples.items()))


@dataclass(frozen=True, slots=True)
class _Trial:
    """Times decodes from an empty KV cache."""

    context: ThreadedModel
    budget_seconds: float
    progress: Progress
    clock: Clock
    start_seconds: float

    def elapsed(self) -> float:
        return self.clock() - self.start_seconds

    def decode(self, width: int) -> float:
        before = self.clock()
        self.context.decode([0] * width)
        seconds = self.clock() - before
        self.context.truncate(0)
        self.progress(min(1.0, self.elapsed() / self.budget_seconds))
        return seconds

    def sample(self, num_threads: int) -> tuple[float, float]:
        """Seconds of a decode of one token, and of several."""
        self.context.set_threads(num_threads, num_threads)
        self.decode(1)  # does not count: threads are started, and meet their part of the weights
        return self.decode(1), self.decode(_TRIAL_WIDTH)


def _times(num_threads: int, samples: Sequence[tuple[float, float]]) -> ThreadTimes:
    """The lower medians."""
    single_seconds, batch_seconds = map(statistics.median_low, zip(*samples, strict=True))
    return ThreadTimes(num_threads, single_seconds, batch_seconds)
