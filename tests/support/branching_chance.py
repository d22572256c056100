"""A source of chance that takes every branch, so that a law can be enumerated through the real code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from homespec.records import TokenDistribution

Outcome = TypeVar("Outcome")


class BranchingChance:
    """A `Chance` that follows a given path of decisions, then the first branch of every further one.

    Branches of probability zero do not exist. `weight` is the probability of the path taken so far.
    """

    def __init__(self, path: Sequence[int]) -> None:
        self._path = list(path)
        self._num_branches: list[int] = []
        self.weight = 1.0

    def happens(self, probability: float) -> bool:
        assert 0.0 <= probability <= 1.0
        return self._branch([(True, probability), (False, 1.0 - probability)])

    def choose(self, distribution: TokenDistribution, position: int) -> int:
        assert abs(distribution.probs.sum() - 1.0) < 1e-12
        assert (distribution.probs >= 0.0).all()
        ids: list[int] = distribution.ids.tolist()
        return self._branch(list(zip(ids, distribution.probs.tolist(), strict=True)))

    def next_path(self) -> list[int] | None:
        """The path after this one in depth-first order; None when all have been taken."""
        for depth in reversed(range(len(self._num_branches))):
            if self._path[depth] + 1 < self._num_branches[depth]:
                return [*self._path[:depth], self._path[depth] + 1]
        return None

    def _branch(self, options: Sequence[tuple[Outcome, float]]) -> Outcome:
        possible = [(outcome, weight) for outcome, weight in options if weight > 0.0]
        depth = len(self._num_branches)
        self._num_branches.append(len(possible))
        if depth == len(self._path):
            self._path.append(0)
        outcome, weight = possible[self._path[depth]]
        self.weight *= weight
        return outcome


def enumerate_outcomes(run: Callable[[BranchingChance], Outcome]) -> Iterator[tuple[Outcome, float]]:
    """Every way that `run` can end, with its probability; `run` must depend on its argument alone."""
    path: list[int] | None = []
    while path is not None:
        chance = BranchingChance(path)
        yield run(chance), chance.weight
        path = chance.next_path()
