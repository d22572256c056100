"""Suffix lookup with counts: what followed whenever the text read like this, and how often?

In the spirit of SuffixDecoding (Oliaro et al. 2411.04975): the longest suffix of the history that occurred
before is found in the history itself and in an optional corpus, the draft follows the most frequent
continuation, counts give each drafted token a probability, and a longer match earns a longer draft. Where
the paper keeps a suffix tree, this keeps hashed suffixes of two sizes with links from each occurrence to the
one before. A tree's counts at any depth are then counted at proposal time, over few and recent occurrences.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterable, Sequence
from itertools import islice

from homespec.contracts import KeepGoing
from homespec.drafting.prefix import common_prefix_length
from homespec.records import NO_DRAFT, Draft
from homespec.units import format_bytes

_logger = logging.getLogger(__name__)

# Shorter matches draft template markers and punctuation, most of it rejected.
MIN_MATCH_TOKENS = 3
# The second indexed size. Common short suffixes have more occurrences than are looked at; a long match among
# the older ones is found through this one.
LONG_MATCH_TOKENS = 8
# Matches are measured up to here: beyond it they hardly predict better.
MAX_MATCH_TOKENS = 32
# How many occurrences per indexed size are looked at, the most recent first. More cost time and predict
# worse: texts drift.
MAX_OCCURRENCES = 16
# A draft may be this many times as long as its match (SuffixDecoding's max_spec_factor).
DRAFT_TOKENS_PER_MATCH_TOKEN = 3

# The estimate, fitted to first tokens of drafts over source code, prose and JSON. An occurrence of a shorter
# suffix is worth this part of one of the longest; a continuation loses this much of its count, divided by
# the match length (absolute discounting); and nothing is certain.
SHORTER_MATCH_WEIGHT = 0.3
DISCOUNT = 1.6
SMOOTHING = 0.02

HISTORY_SLOTS = 1 << 16
# Memory of the index: a token or a reference to one that the caller holds anyway, two links, and the slots.
HISTORY_BYTES_PER_TOKEN = 16
HISTORY_FIXED_BYTES = 2 * 4 * HISTORY_SLOTS
CORPUS_BYTES_PER_TOKEN = 28
CORPUS_MAX_BYTES = 32 << 20

_SEPARATOR = -1
_NONE = -1
_Place = tuple[Sequence[int], int]


class SuffixIndex:
    """Finds where the last tokens of a text occurred before.

    An occurrence is named by the position after it, where its successor stands, so the end of the text is
    not indexed before it has one. For each indexed size there is a table of the latest occurrence by hash,
    and for each position a link to the occurrence that it replaced there. Occurrences of different suffixes
    may share a slot: whoever asks compares.
    """

    def __init__(self, tokens: list[int] | array[int], num_slots: int) -> None:
        """Indexes tokens.

        Args:
            tokens: the text; what is appended to it later is to be announced with `index`.
            num_slots: of a hash table, a power of two; about as many as there will be tokens.
        """
        self.tokens = tokens
        self._mask = num_slots - 1
        self._tables = tuple(
            (size, array("i", [_NONE]) * num_slots, array("i"))
            for size in (LONG_MATCH_TOKENS, MIN_MATCH_TOKENS)
        )
        self.index()

    def index(self) -> None:
        """Indexes what has been appended to `tokens`."""
        text, mask = self.tokens, self._mask
        for size, heads, links in self._tables:
            for end in range(len(links), len(text)):
                if end < size:
                    links.append(_NONE)
                    continue
                slot = hash(tuple(text[end - size : end])) & mask
                links.append(heads[slot])
                heads[slot] = end

    def truncate(self, num_tokens: int) -> None:
        """Keeps the first tokens of the text; everything is then as if there had never been more."""
        text, mask = self.tokens, self._mask
        for size, heads, links in self._tables:
            for end in range(len(links) - 1, num_tokens - 1, -1):
                link = links.pop()
                if end >= size:
                    heads[hash(tuple(text[end - size : end])) & mask] = link
        del text[num_tokens:]

    def occurrences(self, suffix: tuple[int, ...]) -> list[int]:
        """Where the last tokens of `suffix` may have occurred, the most recent first.

        Each is to be compared: other suffixes with the same hash are among them.
        """
        found: set[int] = set()
        for size, heads, links in self._tables:
            if len(suffix) < size:
                continue
            end = heads[hash(suffix[-size:]) & self._mask]
            for _ in range(MAX_OCCURRENCES):
                if end == _NONE:
                    break
                found.add(end)
                end = links[end]
        return sorted(found, reverse=True)


def index_corpus(texts: Iterable[Iterable[int]], max_bytes: int = CORPUS_MAX_BYTES) -> SuffixIndex:
    """Indexes texts that the user expects to be quoted. It may be shared by any number of drafters.

    Args:
        texts: token sequences of the target's vocabulary, the most useful first: what exceeds the memory
            is cut off, with a warning. No more of them is read than is indexed.
        max_bytes: memory of the index, `CORPUS_BYTES_PER_TOKEN` for each token.
    """
    room = max_bytes // CORPUS_BYTES_PER_TOKEN
    tokens = array("i")
    for text in map(iter, texts):
        # No match reaches over a separator, and no draft.
        tokens.extend(islice(text, max(0, room - len(tokens) - 1)))
        tokens.append(_SEPARATOR)
        if next(text, None) is not None:
            _logger.warning(
                "The corpus is cut off after %s tokens: its index may take %s of memory.",
                f"{len(tokens):,}",
                format_bytes(max_bytes),
            )
            break
    return SuffixIndex(tokens, 1 << max(0, len(tokens) - 1).bit_length())


class SuffixDrafter:
    """Proposes the most frequent continuation of the longest suffix that occurred before.

    Attributes:
        min_match_tokens: shorter matches propose nothing; at least `MIN_MATCH_TOKENS`. It may change between
            proposals: in JSON and tool calls short matches are brackets and quotes.
    """

    # The word that users know it by.
    name = "ngram"

    def __init__(self, corpus: SuffixIndex | None = None, min_match_tokens: int = MIN_MATCH_TOKENS) -> None:
        self.min_match_tokens = min_match_tokens
        self._history = SuffixIndex([], HISTORY_SLOTS)
        self._indexes = (self._history,) if corpus is None else (self._history, corpus)

    def propose(self, tokens: Sequence[int], max_tokens: int, keep_going: KeepGoing) -> Draft:
        """See `Drafter.propose`. Deterministic; each token has a confidence."""
        self._follow(tokens)
        length, longest, shorter = self._find(tuple(tokens[-MAX_MATCH_TOKENS:]))
        if length < max(self.min_match_tokens, MIN_MATCH_TOKENS):
            return NO_DRAFT
        max_tokens = min(max_tokens, length * DRAFT_TOKENS_PER_MATCH_TOKEN)
        # A continuation that reaches the end of the history is a repetition: it goes on in the draft, which
        # therefore stands behind the history while it grows.
        text, start = self._history.tokens, len(tokens)
        confidences: list[float] = []
        try:
            while len(confidences) < max_tokens:
                token, confidence = _elect(longest, shorter, length + len(confidences))
                if token == _SEPARATOR or not keep_going(confidence):
                    break
                text.append(token)
                confidences.append(confidence)
                longest = _advance(longest, token)
                shorter = _advance(shorter, token)
            return Draft(tokens=tuple(text[start:]), confidences=tuple(confidences))
        finally:
            del text[start:]

    def _follow(self, tokens: Sequence[int]) -> None:
        """Makes the index that of the history."""
        history = self._history
        text, known = history.tokens, len(history.tokens)
        text.extend(tokens[known:])
        # Usually the history has grown. Lists of one length are compared in place, without the copies of the
        # whole history that cost more than everything else here.
        if text != tokens:
            del text[known:]
            history.truncate(common_prefix_length(text, tokens))
            text.extend(tokens[len(text) :])
        history.index()

    def _find(self, suffix: tuple[int, ...]) -> tuple[int, list[_Place], list[_Place]]:
        """The longest match with its places, the most recent first, and the places of shorter matches."""
        length = MIN_MATCH_TOKENS
        longest: list[_Place] = []
        shorter: list[_Place] = []
        for index in self._indexes:
            text = index.tokens
            for end in index.occurrences(suffix):
                if text[end] == _SEPARATOR:
                    continue
                if tuple(text[max(0, end - length) : end]) == suffix[-length:]:
                    longer = _match_length(text, end, suffix, length)
                    if longer > length:
                        length = longer
                        shorter += longest
                        longest = []
                    longest.append((text, end))
                elif tuple(text[end - MIN_MATCH_TOKENS : end]) == suffix[-MIN_MATCH_TOKENS:]:
                    shorter.append((text, end))
        return length if longest else 0, longest, shorter


def _match_length(text: Sequence[int], end: int, suffix: tuple[int, ...], known: int) -> int:
    """How many tokens before `end` are the last of `suffix`, when `known` of them are."""
    most = min(end, len(suffix))
    while known < most and text[end - known - 1] == suffix[-known - 1]:
        known += 1
    return known


def _advance(places: list[_Place], token: int) -> list[_Place]:
    """The places where the token follows, one further."""
    return [(text, end + 1) for text, end in places if text[end] == token]


def _elect(longest: list[_Place], shorter: list[_Place], match_length: int) -> tuple[int, float]:
    """The most frequent continuation of the longest match, and the probability that it is right.

    Returns:
        The token, of equals the one seen last, and the estimate, above 0 and below 1; or `_SEPARATOR` where
        all the texts end.
    """
    votes: dict[int, float] = {}
    for text, end in longest:
        follower = text[end]
        if follower != _SEPARATOR:
            votes[follower] = votes.get(follower, 0) + 1
    if not votes:
        return _SEPARATOR, 0.0
    token = max(votes, key=votes.__getitem__)
    count, total = votes[token], sum(votes.values())
    for text, end in shorter:
        follower = text[end]
        if follower != _SEPARATOR:
            total += SHORTER_MATCH_WEIGHT
            if follower == token:
                count += SHORTER_MATCH_WEIGHT
    return token, (count - DISCOUNT / match_length) / (count + SMOOTHING) * count / total
