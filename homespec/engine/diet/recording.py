"""What a draft model would propose along a text that the target wrote greedily.

Decoding the text once is enough (teacher forcing): as long as a draft is right its history is the text
itself, and after its first wrong token nothing of it counts. So this gives, at every position, exactly the
length that a greedy draft would be accepted to, at the price of a prefill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from homespec.contracts import TokenModel
from homespec.drafting.prefix import rewind
from homespec.engine.diet.passages import Passage

CHUNK_ROWS = 32
"""Rows of logits that the draft model must be opened for."""
_PROBABLE = 1e-3


@dataclass(frozen=True, slots=True)
class Recording:
    """A draft model's word at each position of a passage's reply.

    Attributes:
        passage: the text.
        proposals: for each token of the reply the one that the draft model would have drafted.
        confidences: the probability that it gave it.
    """

    passage: Passage
    proposals: tuple[int, ...]
    confidences: tuple[float, ...]

    @property
    def agreed(self) -> tuple[bool, ...]:
        """For each token of the reply whether the proposal is it."""
        reply = self.passage.tokens[self.passage.num_prompt_tokens :]
        return tuple(mine == real for mine, real in zip(self.proposals, reply, strict=True))


def record(context: TokenModel, passage: Passage, expected: Counter[int] | None = None) -> Recording:
    """Reads a passage with a draft model.

    Args:
        context: the draft model, opened for `CHUNK_ROWS` rows; its cache is brought in line.
        passage: fits into its context.
        expected: grows by 1000 times the probability of each token at each position: how often the draft
            model would say it, were each reply written a thousand times.

    Raises:
        DecodeAbortedError: stopped on request.
    """
    tokens, first = list(passage.tokens), passage.num_prompt_tokens - 1
    kept = rewind(context, tokens[: first + 1])
    if kept < first:
        context.decode(tokens[kept:first], rows="none")
    proposals: list[int] = []
    confidences: list[float] = []
    for start in range(first, len(tokens) - 1, CHUNK_ROWS):
        rows = context.decode(tokens[start : min(start + CHUNK_ROWS, len(tokens) - 1)], rows="all")
        for row in rows:
            token = int(row.argmax())
            weights = np.exp(row - row[token])
            weights /= weights.sum()
            proposals.append(token)
            confidences.append(float(weights[token]))
            if expected is not None:
                probable = np.flatnonzero(weights >= _PROBABLE)
                for one, weight in zip(probable.tolist(), weights[probable].tolist(), strict=True):
                    expected[one] += round(1000 * weight)
    return Recording(passage, tuple(proposals), tuple(confidences))


@dataclass(frozen=True, slots=True)
class Acceptance:
    """How drafts of a fixed length fare.

    Attributes:
        mean_length: mean acceptance length, 1 + accepted / drafts.
        by_position: for each position of the draft the share of drafts that were accepted up to it.
        num_drafts: from which this was computed.
    """

    mean_length: float
    by_position: tuple[float, ...]
    num_drafts: int


def acceptance(recordings: Sequence[Recording], draft_length: int) -> Acceptance:
    """Of the steps that a loop with this draft length takes along the recorded replies.

    Steps whose draft would reach beyond the end of a reply are left out.
    """
    counts = [0] * draft_length
    num_drafts = 0
    for recording in recordings:
        agreed, position = recording.agreed, 0
        while position + draft_length <= len(agreed):
            num_accepted = run_length(agreed[position : position + draft_length])
            num_drafts += 1
            for place in range(num_accepted):
                counts[place] += 1
            position += num_accepted + 1
    shares = tuple(count / max(1, num_drafts) for count in counts)
    return Acceptance(1 + sum(shares), shares, num_drafts)


def run_length(agreed: Sequence[bool]) -> int:
    """How many of the first are true."""
    return next((place for place, right in enumerate(agreed) if not right), len(agreed))
