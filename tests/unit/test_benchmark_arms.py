"""Arms by name, and the order in which they take turns."""

from __future__ import annotations

import pytest

from homespec.benchmark.arms import AUTO, PLAIN, in_turn, make_arms, parse_arm
from homespec.engine.settings import FixedDraft
from homespec.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("plain", FixedDraft()),
        ("auto", None),
        ("ngram 5", FixedDraft(("ngram",), 5)),
        ("draft-model 3", FixedDraft(("draft-model",), 3)),
        ("ngram+draft-model 63", FixedDraft(("ngram", "draft-model"), 63)),
    ],
)
def test_names_stand_for_arms(text: str, fixed: FixedDraft | None) -> None:
    arm = parse_arm(text)
    assert (arm.name, arm.fixed) == (text, fixed)


@pytest.mark.parametrize(
    "text", ["", "ngram", "ngram five", "model 3", "plain 3", "ngram 0", "ngram 64", "auto 5"]
)
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_arm(text)


def test_all_arms_that_are_possible() -> None:
    names = [arm.name for arm in make_arms((), (1, 4), has_draft_model=True)]
    drafters = ("ngram", "draft-model", "ngram+draft-model")
    assert names == ["plain", *(f"{drafter} {length}" for drafter in drafters for length in (1, 4)), "auto"]
    assert [arm.name for arm in make_arms((), (5,), has_draft_model=False)] == ["plain", "ngram 5", "auto"]


def test_plain_is_always_an_arm_and_none_is_there_twice() -> None:
    names = ["auto", "plain", "auto", "ngram 2"]
    assert [arm.name for arm in make_arms(names, (5,), has_draft_model=False)] == ["plain", "auto", "ngram 2"]


def test_an_arm_may_need_a_draft_model() -> None:
    with pytest.raises(ConfigError, match="needs a draft model"):
        make_arms(["draft-model 3"], (), has_draft_model=False)


def test_arms_take_turns_a_b_b_a() -> None:
    order = [arm.name for turn in range(4) for arm in in_turn([PLAIN, AUTO], turn)]
    assert order == ["plain", "auto", "auto", "plain"] * 2
