"""The search for the drafter that makes a target fastest, over made-up landscapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from homespec.reduce.search import MOST_LOST_LENGTH, Recipe, Score, Search, Space

VOCABULARIES = (64_000, 32_000, 16_000, 8_000)
LAYERS = ((0, 1, 2, 4), (0, 2, 4), (0, 4))
SPACE = Space(("Q4_0", "Q2_K"), VOCABULARIES, 1, LAYERS)


@dataclass
class Landscape:
    """Speedups as products of what each dimension is worth; remembers what was asked."""

    types: dict[str | None, float] = field(default_factory=dict)
    vocabularies: dict[int | None, float] = field(default_factory=dict)
    layers: dict[tuple[int, ...] | None, float] = field(default_factory=dict)
    unusable: Callable[[Recipe], Score | None] = lambda recipe: None
    asked: list[Recipe] = field(default_factory=list)

    def __call__(self, recipe: Recipe) -> Score:
        self.asked.append(recipe)
        speedup = self.types.get(recipe.type_name, 1.0) * self.vocabularies.get(recipe.num_tokens, 1.0)
        speedup *= self.layers.get(recipe.layers, 1.0)
        return self.unusable(recipe) or Score(speedup, speedup, 0.0)

    def searched(self, space: Space = SPACE, has_time: Callable[[], bool] = lambda: True) -> Recipe:
        return Search(self, has_time).run(space)


@pytest.mark.parametrize("num_tokens", [None, *VOCABULARIES])
@pytest.mark.parametrize("type_name", [None, "Q4_0", "Q2_K"])
def test_it_climbs_to_the_top_wherever_that_is(type_name: str | None, num_tokens: int | None) -> None:
    sizes: list[int | None] = [None, *VOCABULARIES]
    top = sizes.index(num_tokens)
    for layers in (None, *LAYERS):
        depths = [None, *LAYERS]
        made = Landscape(
            {type_name: 1.5},
            {size: 2 - 0.1 * abs(place - top) for place, size in enumerate(sizes)},
            {depth: 2 - 0.1 * abs(place - depths.index(layers)) for place, depth in enumerate(depths)},
        )
        assert made.searched() == Recipe(type_name, num_tokens, layers)
        assert len(made.asked) == len(set(made.asked))


def test_what_is_beyond_a_worse_recipe_is_not_asked() -> None:
    made = Landscape({"Q4_0": 1.2}, {32_000: 1.3, 16_000: 1.1}, {LAYERS[0]: 0.9})
    search = Search(made, lambda: True)
    assert search.run(SPACE) == search.best == Recipe("Q4_0", 32_000)
    assert made.asked == [
        Recipe(),
        Recipe("Q4_0"),
        Recipe("Q2_K"),
        Recipe("Q4_0", 32_000),
        Recipe("Q4_0", 16_000),
        Recipe("Q4_0", 64_000),
        Recipe("Q4_0", 32_000, LAYERS[0]),
    ]
    assert list(search.scores) == made.asked


@pytest.mark.parametrize("num_tried", range(1, 8))
def test_out_of_time_the_best_so_far_is_the_result(num_tried: int) -> None:
    made = Landscape({"Q4_0": 1.2}, {32_000: 1.3, 16_000: 1.1}, {LAYERS[0]: 0.9})
    search = Search(made, lambda: len(made.asked) < num_tried)
    best = search.run(SPACE)
    assert len(made.asked) == num_tried
    assert search.scores[best].speedup == max(score.speedup for score in search.scores.values())


def test_known_scores_are_not_asked_for_again() -> None:
    made = Landscape({"Q4_0": 1.2}, {32_000: 1.3})
    search = Search(made, lambda: True)
    search.run(SPACE)
    num_asked = len(made.asked)
    assert Search(made, lambda: False, search.scores).run(SPACE) == Recipe("Q4_0", 32_000)
    assert len(made.asked) == num_asked


def test_nothing_to_try_leaves_the_original() -> None:
    made = Landscape()
    assert made.searched(Space()).is_original
    assert made.asked == [Recipe()]


@pytest.mark.parametrize(
    "bad",
    [Score(9.0, 9.0, MOST_LOST_LENGTH + 0.01), Score(9.0, 9.0, 0.0, fits=False)],
    ids=["loses too much", "does not fit"],
)
def test_the_unusable_is_never_taken_however_fast(bad: Score) -> None:
    made = Landscape({"Q4_0": 1.2}, unusable=lambda recipe: bad if recipe.type_name == "Q2_K" else None)
    assert made.searched() == Recipe("Q4_0")
    # Not even the original, where something else can be used.
    made = Landscape({"Q4_0": 0.8}, unusable=lambda recipe: bad if recipe.is_original else None)
    assert made.searched().type_name is not None
    assert Score(1.0, 1.0, MOST_LOST_LENGTH).beats(bad)
    assert not bad.beats(Score(1.0, 1.0, 0.0))


def test_of_equals_the_better_draft_model_is_taken() -> None:
    usual = Score(1.5, 1.2, 0.0)
    assert Score(1.495, 1.3, 0.0).beats(usual)
    assert not usual.beats(Score(1.495, 1.3, 0.0))
    assert not usual.beats(usual)
    assert Score(1.52, 1.0, 0.0).beats(usual)
    assert not Score(1.48, 9.0, 0.0).beats(usual)


def test_recipes_in_words() -> None:
    assert Recipe().describe(24) == "as it is"
    assert Recipe("Q4_0", 32_000, (0, 1, 23)).describe(24) == "Q4_0, 32,000 tokens, 3 of 24 layers"


def test_a_vocabulary_that_loses_too_much_says_nothing_about_larger_ones() -> None:
    small = (16_000, 8_000)
    made = Landscape(
        vocabularies=dict.fromkeys(VOCABULARIES, 1.3),
        unusable=lambda recipe: Score(9.0, 9.0, 1.0) if recipe.num_tokens in small else None,
    )
    assert made.searched(Space((), VOCABULARIES, 3)) == Recipe(num_tokens=32_000)
