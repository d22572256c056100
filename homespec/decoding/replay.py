"""The loop along a reply that is known already: what a drafter makes of it, without the target.

A greedy reply is the same whoever drafts, so it is enough to have had the target write it once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from homespec.contracts import Drafter, LengthPolicy
from homespec.decoding.loop import ActiveReply, first_step, propose, record_step, settle
from homespec.decoding.stopping import Stopping
from homespec.records import Draft, FloatArray, StepRecord, Verdict
from homespec.sampling.matching import match

_NO_LOGITS = np.empty((0, 0), dtype=np.float32)


class _Known:
    """A `Verifier` that looks up what the target says."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self._tokens = tokens

    def verify(self, history: Sequence[int], draft: Draft, logits: FloatArray) -> Verdict:
        return match(draft.tokens, self._tokens[len(history) :])


def replay(
    tokens: Sequence[int], num_prompt_tokens: int, drafter: Drafter, lengths: LengthPolicy
) -> Iterator[StepRecord]:
    """Takes the steps that `decode_steps` would take.

    Args:
        tokens: prompt and reply, at least one token of each.
        num_prompt_tokens: how many of them are the prompt.
        drafter: fresh.
        lengths: told of every step, all times of which are 0.
    """
    stopping = Stopping(
        is_end=lambda _token: False,
        token_bytes=lambda _token: b"",
        stop_strings=(),
        max_tokens=None,
        context_tokens=len(tokens),
    )
    reply = ActiveReply(list(tokens[:num_prompt_tokens]), drafter, _Known(tokens), lengths, stopping)
    step = first_step(reply, _NO_LOGITS)
    yield step
    while step.finish_reason is None:
        draft = propose(reply)
        step = record_step(reply, draft, drafter.name, settle(reply, draft, _NO_LOGITS))
        yield step
