"""The central loop: draft, verify, accept.

Speculative decoding as in Leviathan et al. 2211.17192, Algorithm 1, with the conventions of llama.cpp's
`speculative-simple`: the last token of the history (the pending token) is not yet in the KV cache, and is
decoded together with the draft.

A step has three phases. `propose` and `settle` are about one sequence; the decode between them takes the
rows of one sequence here, and could take those of several.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

from homespec.contracts import Drafter, LengthPolicy, TokenModel, Verifier
from homespec.decoding.stopping import Stopping
from homespec.drafting.none import NoDrafter
from homespec.errors import CacheRollbackError, DecodeAbortedError
from homespec.records import NO_DRAFT, Draft, FinishReason, FloatArray, ReasonCode, StepRecord

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ActiveReply:
    """One reply in the making.

    Attributes:
        tokens: the history; grows by the committed tokens. The last one is pending.
        drafter: replaced by `NoDrafter` when it fails.
        verifier, lengths, stopping: of this request.
        dropped: why the drafter was dropped, as a reason code and a sentence; None while it works.
    """

    tokens: list[int]
    drafter: Drafter
    verifier: Verifier
    lengths: LengthPolicy
    stopping: Stopping
    dropped: tuple[ReasonCode, str] | None = None

    def drop_drafter(self, reason: ReasonCode, why: str) -> None:
        """Goes on plainly: a drafter never stops a reply."""
        _logger.warning("The drafter %s was dropped: %s", self.drafter.name, why)
        self.dropped = (reason, why)
        self.drafter = NoDrafter()


def propose(reply: ActiveReply) -> Draft:
    """First phase: a draft that fits the context and the token budget.

    Raises:
        DecodeAbortedError: stopped on request.
    """
    # A step commits its accepted tokens and one more, so a draft of room - 1 can use up all that is left.
    length = reply.lengths.next_length(reply.stopping.room(len(reply.tokens)) - 1)
    if length < 1:
        return NO_DRAFT
    try:
        return reply.drafter.propose(reply.tokens, length, reply.lengths.keep_going)
    except DecodeAbortedError:
        raise
    except Exception as error:  # noqa: BLE001 - no failure of a drafter may stop the reply
        reply.drop_drafter("drafter_failed", str(error) or type(error).__name__)
        return NO_DRAFT


def settle(reply: ActiveReply, draft: Draft, logits: FloatArray) -> tuple[int, int, FinishReason | None]:
    """Third phase: verifies, commits token by token, and stops at the first reason to.

    Args:
        reply: grows by the committed tokens.
        draft: k tokens.
        logits: shape (k + 1, vocab_size).

    Returns:
        How many tokens were committed, how many draft tokens among them were accepted, why the reply ends.
    """
    verdict = reply.verifier.verify(reply.tokens, draft, logits)
    reason: FinishReason | None = None
    num_committed = 0
    for token in verdict.tokens:
        reply.tokens.append(token)
        num_committed += 1
        reason = reply.stopping.commit(token, len(reply.tokens))
        if reason is not None:
            break
    return num_committed, min(verdict.num_accepted, num_committed), reason


def record_step(
    reply: ActiveReply,
    draft: Draft,
    name: str,
    settled: tuple[int, int, FinishReason | None],
    times: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> StepRecord:
    """The record of a step, which the length policy is told of.

    Args:
        reply: as it is now.
        draft: what was proposed.
        name: of the drafter that was asked.
        settled: what `settle` gave.
        times: drafting, verifying and sampling, in seconds.
    """
    num_committed, num_accepted, reason = settled
    step = StepRecord(
        tuple(reply.tokens[-num_committed:]),
        # A stop inside the draft leaves the rest of it unjudged: it is neither accepted nor rejected.
        num_accepted if reason and num_accepted == num_committed else len(draft.tokens),
        num_accepted,
        (draft.drafter or name) if draft.tokens else "none",
        1 + len(draft.tokens) + draft.padding,
        *times,
        finish_reason=reason,
    )
    reply.lengths.observe(step)
    return step


def first_step(reply: ActiveReply, logits: FloatArray) -> StepRecord:
    """Commits the token that reading the prompt gave; there is nothing to decode, and no draft yet.

    Args:
        reply: grows by the token.
        logits: shape (1, vocab_size), after the prompt.
    """
    start = perf_counter()
    _, _, reason = settle(reply, NO_DRAFT, logits)
    sample_seconds = perf_counter() - start
    return StepRecord((reply.tokens[-1],), 0, 0, "none", 0, 0.0, 0.0, sample_seconds, reason)


def decode_steps(target: TokenModel, reply: ActiveReply, logits: FloatArray) -> Iterator[StepRecord]:
    """Generates a reply: its first token from the prompt's logits, then one record per target decode.

    At every yield `target.num_cached_tokens == len(reply.tokens) - 1`, also after an interruption, so
    that the caller may stop anywhere and go on later.

    Args:
        target: its KV cache holds all of `reply.tokens`.
        reply: what to extend; there must be room for one token at least.
        logits: shape (1, vocab_size), after the last of these tokens.

    Yields:
        The records; the last one has a finish reason.
    """
    first = first_step(reply, logits)
    yield first
    if first.finish_reason is not None:
        return
    while True:
        name, start = reply.drafter.name, perf_counter()
        draft = NO_DRAFT
        drafted = start
        try:
            draft = propose(reply)
            drafted = perf_counter()
            pending = reply.tokens[-1]
            # Padding stands behind all that is verified, so that its tokens do not matter.
            logits = target.decode([pending, *draft.tokens, *[pending] * draft.padding], rows="all")
        except DecodeAbortedError:
            yield StepRecord((), 0, 0, name, 0, drafted - start, 0.0, 0.0, "interrupted")
            return
        verified = perf_counter()
        settled = settle(reply, draft, logits[: 1 + len(draft.tokens)])
        _roll_back(target, reply)
        times = (drafted - start, verified - drafted, perf_counter() - verified)
        step = record_step(reply, draft, name, settled, times)
        yield step
        if step.finish_reason is not None:
            return


def _roll_back(target: TokenModel, reply: ActiveReply) -> None:
    """Takes what was not committed out of the KV cache."""
    num_wanted = len(reply.tokens) - 1
    if target.num_cached_tokens == num_wanted:
        return
    try:
        target.truncate(num_wanted)
    except CacheRollbackError as error:
        # The cache is empty now. Models that cannot truncate are found when they are opened; should one
        # slip through, its state is rebuilt rather than trusted.
        reply.drop_drafter("cannot_roll_back", error.message)
        target.decode(reply.tokens[:-1], rows="none")
