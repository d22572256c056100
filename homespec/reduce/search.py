"""The search for the drafter that makes a target fastest: number format, then vocabulary, then layers.

Pure: whoever calls says what a recipe is worth. Along each dimension the search climbs from a good guess as
long as it gets better; all combinations would take hours, and what is best in one dimension hardly depends on
the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

MOST_LOST_LENGTH = 0.25
"""A drafter that loses more of the mean acceptance length than this is not taken.

What it loses on other texts than those of the trial may be more.
"""
# Of two drafters whose speedups differ by less, the one with the better draft model is taken: the rest of the
# speed is lookup's.
_TIE = 0.01


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a drafter is made. None keeps what the original has.

    Attributes:
        type_name: number format of all matrices.
        num_tokens: that it can write.
        layers: those that it keeps, ascending.
    """

    type_name: str | None = None
    num_tokens: int | None = None
    layers: tuple[int, ...] | None = None

    @property
    def is_original(self) -> bool:
        """Whether nothing is done."""
        return self == Recipe()

    def describe(self, num_layers: int) -> str:
        """In a few words for people.

        Args:
            num_layers: of the original.
        """
        parts = [self.type_name] if self.type_name else []
        parts += [f"{self.num_tokens:,} tokens"] if self.num_tokens else []
        parts += [f"{len(self.layers)} of {num_layers} layers"] if self.layers else []
        return ", ".join(parts) or "as it is"


@dataclass(frozen=True, slots=True)
class Score:
    """What a recipe is worth.

    Attributes:
        speedup: that the controller expects of it, with lookup, over plain decoding.
        fixed_speedup: of the draft model alone at its best fixed draft length.
        lost_length: of the original's mean acceptance length at draft length 5.
        fits: whether there is memory for it.
    """

    speedup: float
    fixed_speedup: float
    lost_length: float
    fits: bool = True

    def beats(self, other: Score) -> bool:
        """Whether it is the better choice."""
        if self.is_usable != other.is_usable:
            return self.is_usable
        if abs(self.speedup - other.speedup) >= _TIE:
            return self.speedup > other.speedup
        return self.fixed_speedup > other.fixed_speedup

    @property
    def is_usable(self) -> bool:
        """Whether it may be taken at all."""
        return self.fits and self.lost_length <= MOST_LOST_LENGTH


@dataclass(frozen=True, slots=True)
class Space:
    """What is tried.

    Attributes:
        types: number formats, the most promising first.
        vocabularies: numbers of tokens, descending.
        first_vocabulary: with which of them to begin, an index.
        layers: sets of layers to keep, each smaller than the one before.
    """

    types: Sequence[str] = ()
    vocabularies: Sequence[int] = ()
    first_vocabulary: int = 0
    layers: Sequence[tuple[int, ...]] = ()


@dataclass(slots=True)
class Search:
    """A search under way, or done.

    Attributes:
        evaluate: what a recipe is worth; asked once for each.
        has_time: asked before each; when it says no, the best so far is the result.
        scores: of everything that was tried, in order.
    """

    evaluate: Callable[[Recipe], Score]
    has_time: Callable[[], bool]
    scores: dict[Recipe, Score] = field(default_factory=dict)
    best: Recipe = field(default_factory=Recipe)

    def run(self, space: Space) -> Recipe:
        """Searches; the recipe that makes the target fastest, the original among them."""
        self._try(Recipe())
        for type_name in space.types:
            self._try(replace(Recipe(), type_name=type_name))
        self._climb_vocabulary(space)
        before = self.best
        for layers in space.layers:
            if not self._try(replace(before, layers=layers)):
                break
        return self.best

    def _climb_vocabulary(self, space: Space) -> None:
        """From the first guess on smaller and smaller, or larger where that was not to the good."""
        sizes, start = space.vocabularies, space.first_vocabulary
        if not sizes:
            return
        base = self.best
        recipes = [replace(base, num_tokens=size) for size in sizes]
        first = recipes[start]
        if self._try(first):
            for recipe in recipes[start + 1 :]:
                if not self._try(recipe):
                    break
        if self.best in (base, first):
            for recipe in reversed(recipes[:start]):
                # One that still loses too much says nothing about larger ones.
                if not self._try(recipe) and (recipe not in self.scores or self.scores[recipe].is_usable):
                    break

    def _try(self, recipe: Recipe) -> bool:
        """Whether it is better than everything before."""
        if recipe not in self.scores:
            if self.scores and not self.has_time():
                return False
            self.scores[recipe] = self.evaluate(recipe)
        if recipe == self.best or not self.scores[recipe].beats(self.scores[self.best]):
            return False
        self.best = recipe
        return True
