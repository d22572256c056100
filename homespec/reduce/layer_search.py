"""Which layers to drop: one at a time, always the one whose loss costs least.

Of a model with L layers a round would measure up to L shallower models. Dropping a layer mostly costs more
the fewer are left, so what a candidate cost in an earlier round is taken for the least that it costs now:
only candidates that could still be the best by that are measured anew (lazy greedy search: Minoux,
Accelerated greedy algorithms, 1978); for six of SmolLM2's thirty layers that was 90 measurements instead of
166. Where the assumption fails the choice may be second best.

The first round begins with layers spread over the depth. When time is up before each was dropped once, the
others are taken to be missed like their neighbours, and those at either end most of all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import numpy as np

from homespec.reduce.layers import evenly_spaced
from homespec.runtime.atomic import write_atomically

Layers = tuple[int, ...]
Evaluate = Callable[[Layers], float]
"""How well a model of these layers does, 0 to 1; see `agreement`."""
OnEvaluated = Callable[[Layers, float], None]
"""Told what each measurement has shown."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The layers to keep.

    Attributes:
        kept: their indices, ascending.
        score: of a model with these.
        spaced_score: of as many evenly spaced ones, for comparison.
        path: the best found at each depth on the way, from one layer less than all on, with its score.
        num_evaluations: made by this call; what was known from an earlier one is not made again.
        finished: False where time was up, and the last layers were dropped by earlier rounds' measurements.
    """

    kept: Layers
    score: float
    spaced_score: float
    path: tuple[tuple[Layers, float], ...]
    num_evaluations: int
    finished: bool


class _OutOfTimeError(Exception):
    """The next measurement would exceed the budget."""


def greedy_search(
    num_layers: int,
    num_kept: int,
    evaluate: Evaluate,
    *,
    budget_seconds: float = math.inf,
    state: Path | None = None,
    identity: str = "",
    on_evaluated: OnEvaluated = lambda kept, score: None,
    clock: Callable[[], float] = perf_counter,
) -> SearchResult:
    """Looks for the layers that a model misses least.

    Args:
        num_layers: of the model.
        num_kept: how many may stay.
        evaluate: measures a model of some layers; the same layers must give the same score.
        budget_seconds: no measurement is begun that would probably end later; two are made in any case: of
            evenly spaced layers, and of what is returned.
        state: a file that remembers measurements, so that a search that was stopped goes on where it was, and
            one for fewer layers begins with what is known.
        identity: of everything that the scores depend on; a state of another identity is not used.
        on_evaluated: called after each measurement.
        clock: seconds that have passed.

    Raises:
        ConfigError: there are not so many layers.
        OSError: the state cannot be written.
    """
    spaced = evenly_spaced(num_layers, num_kept)
    scores = _Scores(evaluate, state, identity, on_evaluated, clock, budget_seconds)
    spaced_score = scores.of(spaced, in_any_case=True)
    current: Layers = tuple(range(num_layers))
    path: list[tuple[Layers, float]] = []
    # For each layer what was left when it was dropped by itself, from what there was when that was measured.
    bounds: dict[int, float] = {}
    finished = True
    try:
        while len(current) > num_kept:
            current, score = _best_of_round(current, bounds, scores)
            path.append((current, score))
    except _OutOfTimeError:
        finished = False
        current = _missed_most(current, bounds, num_layers)[:num_kept] if bounds else spaced
        current = tuple(sorted(current))
    score = scores.of(current, in_any_case=True) if current != tuple(range(num_layers)) else 1.0
    if spaced_score > score:
        current, score = spaced, spaced_score
    return SearchResult(current, score, spaced_score, tuple(path), scores.num_evaluations, finished)


def _best_of_round(current: Layers, bounds: dict[int, float], scores: _Scores) -> tuple[Layers, float]:
    """Drops one layer; updates the bounds."""
    best_layer, best_score = -1, -math.inf
    # Those of which nothing is known come first.
    for layer in sorted(_spread(current), key=lambda layer: -bounds.get(layer, math.inf)):
        if bounds.get(layer, math.inf) <= best_score:
            break
        bounds[layer] = scores.of(_without(current, layer))
        if bounds[layer] > best_score:
            best_layer, best_score = layer, bounds[layer]
    del bounds[best_layer]
    return _without(current, best_layer), best_score


def _spread(layers: Layers) -> list[int]:
    """The same, so ordered that every beginning is spread over the depth."""
    found: dict[int, None] = {}
    step = len(layers)
    while step > 1:
        step = (step + 1) // 2
        found |= dict.fromkeys(layers[step // 2 :: step])
    return list(found | dict.fromkeys(layers))


def _missed_most(layers: Layers, bounds: Mapping[int, float], num_layers: int) -> Layers:
    """The same, first those without which least is left, as measured of them or of their neighbours."""
    measured = sorted(bounds)
    places = [-1, *measured, num_layers]
    left = [0.0, *(bounds[layer] for layer in measured), 0.0]
    return tuple(sorted(layers, key=lambda layer: float(np.interp(layer, places, left))))


def _without(layers: Layers, dropped: int) -> Layers:
    return tuple(layer for layer in layers if layer != dropped)


@dataclass
class _Scores:
    """Measurements, remembered in a file."""

    evaluate: Evaluate
    state: Path | None
    identity: str
    on_evaluated: OnEvaluated
    clock: Callable[[], float]
    budget_seconds: float
    num_evaluations: int = 0
    _known: dict[str, float] = field(default_factory=dict)
    _longest_seconds: float = 0.0

    def __post_init__(self) -> None:
        self._start = self.clock()
        if self.state is None:
            return
        try:
            stored = json.loads(self.state.read_text(encoding="utf-8"))
            if stored["identity"] == self.identity:
                self._known = {str(layers): float(score) for layers, score in stored["scores"].items()}
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            self._known = {}  # nothing yet, or nothing that can be read: it is measured anew

    def of(self, layers: Layers, *, in_any_case: bool = False) -> float:
        """The score, known or measured.

        Raises:
            _OutOfTimeError: there is no time for a measurement.
        """
        key = ",".join(map(str, layers))
        if key in self._known:
            return self._known[key]
        before = self.clock()
        used = before - self._start
        if self.num_evaluations and not in_any_case and used + self._longest_seconds > self.budget_seconds:
            raise _OutOfTimeError
        score = self._known[key] = self.evaluate(layers)
        self.num_evaluations += 1
        self._longest_seconds = max(self._longest_seconds, self.clock() - before)
        if self.state is not None:
            text = json.dumps({"identity": self.identity, "scores": self._known}, indent=1)
            write_atomically(self.state, text)
        self.on_evaluated(layers, score)
        return score
