"""What the suffix drafter prefers, how sure it is, and what it remembers."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Sequence

import pytest

from homespec.contracts import Drafter
from homespec.drafting.suffix import (
    CORPUS_BYTES_PER_TOKEN,
    DRAFT_TOKENS_PER_MATCH_TOKEN,
    HISTORY_BYTES_PER_TOKEN,
    HISTORY_FIXED_BYTES,
    LONG_MATCH_TOKENS,
    MAX_OCCURRENCES,
    SuffixDrafter,
    index_corpus,
)
from homespec.records import NO_DRAFT, Draft


def propose(tokens: Sequence[int], max_tokens: int = 4, drafter: Drafter | None = None) -> Draft:
    return (drafter or SuffixDrafter()).propose(tokens, max_tokens, lambda _confidence: True)


def first_confidence(tokens: Sequence[int]) -> float:
    return propose(tokens, 1).confidences[0]


def occurrences(suffix: Sequence[int], followers: Sequence[int]) -> list[int]:
    """The suffix before each follower, with something new in between, and once more at the end."""
    fresh = itertools.count(1000)
    parts = ([next(fresh), *suffix, follower] for follower in followers)
    return [*itertools.chain.from_iterable(parts), next(fresh), *suffix]


@pytest.mark.parametrize("tokens", [[1], [1, 2], [1, 2, 9, 1, 2], [1, 2, 3, 4]])
def test_nothing_to_propose(tokens: list[int]) -> None:
    assert propose(tokens) == NO_DRAFT


def test_three_tokens_are_a_match() -> None:
    assert propose([1, 2, 3, 8, 7, 1, 2, 3], 2).tokens == (8, 7)


def test_the_longest_match_wins_over_the_frequent() -> None:
    tokens = [9, 1, 2, 3, 50, *occurrences([1, 2, 3], [60, 60, 60]), 9, 1, 2, 3]
    assert propose(tokens, 1).tokens == (50,)


def test_the_most_frequent_continuation_wins() -> None:
    assert propose(occurrences([1, 2, 3], [60, 60, 50]), 1).tokens == (60,)


def test_of_equals_the_most_recent_wins() -> None:
    assert propose(occurrences([1, 2, 3], [60, 50]), 1).tokens == (50,)


def test_later_tokens_follow_those_that_agree() -> None:
    tokens = [1, 2, 3, 5, 6, 1, 2, 3, 5, 6, 1, 2, 3, 5, 7, 0, 1, 2, 3]
    assert propose(tokens, 2).tokens == (5, 6)


def test_a_repetition_goes_on() -> None:
    assert propose([1, 2, 3, 1, 2, 3], 7).tokens == (1, 2, 3, 1, 2, 3, 1)


def test_frequency_makes_sure() -> None:
    rising = [first_confidence(occurrences([1, 2, 3], [60] * times)) for times in (1, 2, 3, 8)]
    assert rising == sorted(set(rising))


def test_contradiction_makes_unsure() -> None:
    falling = [first_confidence(occurrences([1, 2, 3], [*range(50, 50 + n), 60, 60])) for n in (0, 1, 3)]
    assert falling == sorted(set(falling), reverse=True)


def test_length_makes_sure() -> None:
    rising = [first_confidence(occurrences(range(n), [60])) for n in (3, 4, 8, 20, 32)]
    assert rising == sorted(set(rising))


def test_shorter_matches_have_a_say() -> None:
    longest = [9, 1, 2, 3, 60]
    agreed = [*occurrences([1, 2, 3], [60, 60]), *longest, 9, 1, 2, 3]
    denied = [*occurrences([1, 2, 3], [50, 50]), *longest, 9, 1, 2, 3]
    alone = [*longest, 9, 1, 2, 3]
    assert first_confidence(denied) < first_confidence(alone) < first_confidence(agreed)


def test_longer_matches_earn_longer_drafts() -> None:
    for length in (3, 5):
        tokens = [*range(length), *range(100, 200), *range(length)]
        assert len(propose(tokens, 50).tokens) == length * DRAFT_TOKENS_PER_MATCH_TOKEN


def test_the_least_match_may_be_raised_on_the_way() -> None:
    drafter = SuffixDrafter()
    tokens = [1, 2, 3, 4, 8, 7, 1, 2, 3, 4]
    assert propose(tokens, 2, drafter).tokens == (8, 7)
    drafter.min_match_tokens = 5
    assert propose(tokens, 2, drafter) == NO_DRAFT
    assert propose([0, *tokens[:6], 0, 1, 2, 3, 4], 2, drafter).tokens == (8, 7)


def test_only_recent_occurrences_are_counted() -> None:
    assert propose(occurrences([1, 2, 3], [60] * 100 + [50] * MAX_OCCURRENCES), 1).tokens == (50,)


def test_a_long_match_is_found_behind_many_short_ones() -> None:
    suffix = list(range(LONG_MATCH_TOKENS))
    tokens = [*suffix, 60, *occurrences(suffix[-3:], [50] * 100), 7, *suffix]
    assert propose(tokens, 1).tokens == (60,)


def test_the_history_is_not_changed() -> None:
    tokens = [1, 2, 3, 1, 2, 3]
    propose(tokens, 7)
    assert tokens == [1, 2, 3, 1, 2, 3]


def test_a_failing_policy_leaves_the_index_right() -> None:
    def fail_later(confidence: float) -> bool:
        if confidence > first_confidence([1, 2, 3, 8, 1, 2, 3]):
            raise RuntimeError
        return True

    drafter = SuffixDrafter()
    with pytest.raises(RuntimeError):
        drafter.propose([1, 2, 3, 8, 1, 2, 3], 4, fail_later)
    assert propose([1, 2, 3, 8, 1, 2, 3, 9, 2, 3, 8], 2, drafter).tokens == (1, 2)


def test_any_sequence_will_do() -> None:
    assert propose((1, 2, 3, 8, 7, 1, 2, 3), 2) == propose([1, 2, 3, 8, 7, 1, 2, 3], 2)


def test_a_corpus_is_quoted_to_its_end() -> None:
    drafter = SuffixDrafter(index_corpus([[1, 2, 3, 4, 5], [6, 7, 8, 9]]))
    assert propose([0, 1, 2, 3], 9, drafter).tokens == (4, 5)
    assert propose([0, 3, 4, 5], 9, drafter) == NO_DRAFT
    assert propose([4, 5, 6, 7], 9, drafter) == NO_DRAFT
    assert propose([6, 7, 8], 9, drafter).tokens == (9,)


def test_of_equals_the_history_wins_over_the_corpus() -> None:
    drafter = SuffixDrafter(index_corpus([[1, 2, 3, 50]]))
    assert propose([1, 2, 3, 60, 9, 1, 2, 3], 1, drafter).tokens == (60,)


def test_drafters_share_a_corpus() -> None:
    corpus = index_corpus([[1, 2, 3, 4, 5]])
    first, second = SuffixDrafter(corpus), SuffixDrafter(corpus)
    assert propose([1, 2, 3], 2, first) == propose([1, 2, 3], 2, second)
    assert propose([7, 2, 3, 4], 1, first).tokens == (5,)


def test_a_corpus_is_cut_to_its_memory_and_that_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    index = index_corpus([range(100), range(100, 200)], max_bytes=50 * CORPUS_BYTES_PER_TOKEN)
    assert len(index.tokens) == 50
    assert [record.getMessage() for record in caplog.records] == [
        "The corpus is cut off after 50 tokens: its index may take 1.4 kB of memory."
    ]
    drafter = SuffixDrafter(index)
    assert propose([40, 41, 42], 2, drafter).tokens == (43, 44)
    assert propose([100, 101, 102], 2, drafter) == NO_DRAFT


def test_a_corpus_that_just_fits_is_not_cut(caplog: pytest.LogCaptureFixture) -> None:
    index = index_corpus([range(20), range(28)], max_bytes=50 * CORPUS_BYTES_PER_TOKEN)
    assert len(index.tokens) == 50
    assert not caplog.records


def test_no_more_of_a_corpus_is_read_than_is_indexed() -> None:
    endless = itertools.count()
    index_corpus([endless], max_bytes=50 * CORPUS_BYTES_PER_TOKEN)
    assert next(endless) == 50


@pytest.mark.parametrize("texts", [[], [[]]])
def test_an_empty_corpus(texts: list[list[int]]) -> None:
    assert propose([1, 2, 3], 2, SuffixDrafter(index_corpus(texts))) == NO_DRAFT


def test_memory_is_as_stated() -> None:
    num_tokens = 20_000
    tokens = [token % 997 for token in range(num_tokens)]
    tracemalloc.start()
    drafter = SuffixDrafter()
    propose(tokens, 4, drafter)
    history_bytes, _ = tracemalloc.get_traced_memory()
    corpus = index_corpus([tokens])
    corpus_bytes = tracemalloc.get_traced_memory()[0] - history_bytes
    tracemalloc.stop()
    assert len(corpus.tokens) == num_tokens + 1
    # Arrays and lists that grow by appending keep an eighth more than they use.
    assert history_bytes < 1.15 * (HISTORY_FIXED_BYTES + HISTORY_BYTES_PER_TOKEN * num_tokens)
    assert corpus_bytes < 1.05 * CORPUS_BYTES_PER_TOKEN * num_tokens


def test_the_planner_counts_with_this_index() -> None:
    from homespec.drafting.suffix import HISTORY_BYTES_PER_TOKEN, HISTORY_FIXED_BYTES
    from homespec.planner.prices import NGRAM_BYTES_PER_TOKEN, NGRAM_FIXED_BYTES

    assert (NGRAM_FIXED_BYTES, NGRAM_BYTES_PER_TOKEN) == (HISTORY_FIXED_BYTES, HISTORY_BYTES_PER_TOKEN)
