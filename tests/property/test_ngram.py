"""The n-gram index against a search of the whole history."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.support.ngram import NgramDrafter

histories = st.lists(st.integers(0, 3), min_size=1, max_size=40)


def search(tokens: Sequence[int], max_tokens: int, smallest: int, largest: int) -> tuple[int, ...]:
    """The longest suffix that occurred before, at its latest occurrence, and what follows it there."""
    for size in range(min(largest, len(tokens) - 1), smallest - 1, -1):
        suffix = list(tokens[-size:])
        for end in range(len(tokens) - 1, size - 1, -1):
            if list(tokens[end - size : end]) == suffix:
                text = list(tokens)
                # What follows may run into what is proposed: it is then read from there.
                for i in range(max_tokens):
                    text.append(text[end + i])
                return tuple(text[len(tokens) :])
    return ()


def propose(drafter: NgramDrafter, tokens: Sequence[int], max_tokens: int) -> tuple[int, ...]:
    return drafter.propose(tokens, max_tokens, lambda _confidence: True).tokens


@given(histories, st.integers(1, 8), st.integers(1, 3), st.integers(0, 2))
def test_the_longest_match_and_its_latest_occurrence(
    tokens: list[int], max_tokens: int, smallest: int, more: int
) -> None:
    drafter = NgramDrafter(smallest, smallest + more)
    assert propose(drafter, tokens, max_tokens) == search(tokens, max_tokens, smallest, smallest + more)


@given(st.lists(histories, min_size=2, max_size=6), st.integers(0, 20))
def test_what_was_asked_before_does_not_matter(texts: list[list[int]], shared: int) -> None:
    # Growing, shrinking, diverging: each history must be answered as if it were the first.
    drafter = NgramDrafter(1, 3)
    previous: list[int] = []
    for text in texts:
        tokens = previous[:shared] + text
        assert propose(drafter, tokens, 5) == search(tokens, 5, 1, 3)
        previous = tokens


def test_short_matches_are_not_proposed() -> None:
    assert propose(NgramDrafter(), [1, 2, 9, 8, 7, 1, 2], 5) == ()
    assert propose(NgramDrafter(), [1, 2, 3, 8, 7, 1, 2, 3], 2) == (8, 7)
