"""The suffix index against a search of the whole history."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from homespec.drafting.suffix import (
    DISCOUNT,
    DRAFT_TOKENS_PER_MATCH_TOKEN,
    MAX_MATCH_TOKENS,
    MAX_OCCURRENCES,
    MIN_MATCH_TOKENS,
    SHORTER_MATCH_WEIGHT,
    SMOOTHING,
    SuffixDrafter,
    index_corpus,
)
from homespec.records import Draft

Places = list[tuple[int, list[int], int]]

blocks = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=9), min_size=2, max_size=3)
histories = st.builds(
    lambda parts, order: [token for which in order for token in parts[which % len(parts)]],
    blocks,
    st.lists(st.integers(0, 2), min_size=1, max_size=12),
)
texts = st.lists(histories, max_size=2)


def matches(history: list[int], corpus: Sequence[list[int]]) -> Places:
    """Every earlier occurrence of the last tokens: how many of them, in which text, and where it ends."""
    places: Places = []
    for text in (history, *corpus):
        for end in range(len(text) - 1, 0, -1):
            most = min(end, len(history), MAX_MATCH_TOKENS)
            length = next((n for n in range(most) if text[end - n - 1] != history[-n - 1]), most)
            if length >= MIN_MATCH_TOKENS:
                places.append((length, text, end))
    return places


def search(history: list[int], corpus: Sequence[list[int]], max_tokens: int, smallest: int) -> Draft:
    """What most of the longest matches say, token by token."""
    text = list(history)
    places = matches(text, corpus)
    # The drafter looks at so many per text; this at all.
    assume(len(places) <= MAX_OCCURRENCES)
    longest = max((length for length, _, _ in places), default=0)
    confidences: list[float] = []
    while longest >= smallest and len(confidences) < min(max_tokens, longest * DRAFT_TOKENS_PER_MATCH_TOKEN):
        places = [place for place in places if place[2] < len(place[1])]
        votes = [source[end] for length, source, end in places if length == longest]
        others = [source[end] for length, source, end in places if length < longest]
        if not votes:
            break
        token = max(votes, key=lambda token: (votes.count(token), -votes.index(token)))
        count = votes.count(token) + SHORTER_MATCH_WEIGHT * others.count(token)
        total = len(votes) + SHORTER_MATCH_WEIGHT * len(others)
        discounted = count - DISCOUNT / (longest + len(confidences))
        confidences.append(discounted / (count + SMOOTHING) * count / total)
        text.append(token)
        places = [(length, source, end + 1) for length, source, end in places if source[end] == token]
    return Draft(tokens=tuple(text[len(history) :]), confidences=tuple(confidences))


def propose(
    drafter: SuffixDrafter,
    tokens: Sequence[int],
    max_tokens: int,
    keep_going: Callable[[float], bool] = lambda _confidence: True,
) -> Draft:
    return drafter.propose(tokens, max_tokens, keep_going)


def check(draft: Draft, expected: Draft) -> None:
    assert draft.tokens == expected.tokens
    assert draft.confidences == pytest.approx(expected.confidences)
    assert draft.probs is None


@given(histories, texts, st.integers(1, 12), st.integers(3, 6))
def test_the_most_frequent_continuation_of_the_longest_match(
    history: list[int], corpus: list[list[int]], max_tokens: int, smallest: int
) -> None:
    drafter = SuffixDrafter(index_corpus(corpus), smallest)
    check(propose(drafter, history, max_tokens), search(history, corpus, max_tokens, smallest))


@given(st.lists(histories, min_size=2, max_size=6), st.integers(0, 20))
def test_what_was_asked_before_does_not_matter(texts: list[list[int]], shared: int) -> None:
    # Growing, shrinking, diverging: each history must be answered as if it were the first.
    drafter = SuffixDrafter()
    previous: list[int] = []
    for text in texts:
        tokens = previous[:shared] + text
        assert propose(drafter, tokens, 5) == propose(SuffixDrafter(), tokens, 5)
        previous = tokens


@given(histories, st.lists(st.booleans(), min_size=12, max_size=12))
def test_keep_going_is_asked_before_each_token(history: list[int], answers: list[bool]) -> None:
    whole = propose(SuffixDrafter(), history, 12)
    asked: list[float] = []

    def keep_going(confidence: float) -> bool:
        asked.append(confidence)
        return answers[len(asked) - 1]

    draft = propose(SuffixDrafter(), history, 12, keep_going)
    kept = [*answers, False].index(False)
    assert draft.tokens == whole.tokens[:kept]
    assert draft.confidences == whole.confidences[:kept]
    assert tuple(asked) == whole.confidences[: kept + 1]


@given(st.lists(st.integers(0, 1), min_size=1, max_size=300))
def test_confidences_are_probabilities(history: list[int]) -> None:
    # Long enough for occurrences that are not looked at.
    draft = propose(SuffixDrafter(), history, 20)
    assert len(draft.confidences) == len(draft.tokens)
    assert all(0 < confidence < 1 for confidence in draft.confidences)
