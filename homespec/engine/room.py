"""How full the context is, and which turns to leave out when it is full. Nothing here touches a model.

Turns are left out exactly: what follows the gap is prefilled again, once, behind the system message, which
stays in the KV cache. llama.cpp could move the surviving part of the cache instead (K-shift). But its
entries were computed while the model still saw what was left out: replies would follow from a text that
nobody is shown.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from homespec.errors import ContextOverflowError
from homespec.records import Message
from homespec.sessions.conversation import Conversation, apply
from homespec.sessions.events import ContextCut

CountTokens = Callable[[Sequence[Message]], int]
"""How many tokens the prompt for the next reply has."""

CutPolicy = Literal["drop", "summarize"]

# What is left in use after a cut, of all that a prompt may take: each cut costs a prefill of what follows it.
LOW_SHARE = 0.6
# The reply is expected to be no longer than this share of the context, and this many tokens.
_RESERVE_SHARE, _MOST_RESERVE_TOKENS = 1 / 8, 1024
_SUMMARY_SHARE, _MOST_SUMMARY_TOKENS = 1 / 8, 256


def reply_reserve(context_tokens: int, max_tokens: int | None = None) -> int:
    """How many tokens to keep free for a reply.

    Args:
        context_tokens: what the context holds.
        max_tokens: the most tokens of the reply, where that is limited.
    """
    usual = min(int(context_tokens * _RESERVE_SHARE), _MOST_RESERVE_TOKENS)
    return max(1, usual if max_tokens is None else min(max_tokens, usual))


def summary_tokens(context_tokens: int) -> int:
    """The most tokens that a summary may take.

    Args:
        context_tokens: what the context holds.
    """
    return min(int(context_tokens * _SUMMARY_SHARE), _MOST_SUMMARY_TOKENS)


@dataclass(frozen=True, slots=True)
class ContextUse:
    """How full the context is.

    Attributes:
        context_tokens: what it holds.
        prompt_tokens: of the prompt for the next reply.
        reserve_tokens: kept free for the reply.
    """

    context_tokens: int
    prompt_tokens: int
    reserve_tokens: int

    @property
    def share(self) -> float:
        """Of the context, in use by the prompt; above 1 where it does not fit."""
        return self.prompt_tokens / self.context_tokens

    @property
    def free_tokens(self) -> int:
        """For more messages, the reply's reserve left out; below zero where the prompt does not fit."""
        return self.context_tokens - self.reserve_tokens - self.prompt_tokens

    @property
    def fits(self) -> bool:
        """Whether the prompt and a reply have room."""
        return self.free_tokens >= 0

    @property
    def nearly_full(self) -> bool:
        """Whether another message and reply of that size may not fit any more."""
        return self.free_tokens < 2 * self.reserve_tokens


def context_use(
    messages: Sequence[Message], count: CountTokens, context_tokens: int, reserve_tokens: int
) -> ContextUse:
    """How full the context is with a prompt.

    Args:
        messages: that the model is shown.
        count: the prompt's tokens.
        context_tokens: what the context holds.
        reserve_tokens: see `reply_reserve`.
    """
    return ContextUse(context_tokens, count(messages), reserve_tokens)


@dataclass(frozen=True, slots=True)
class Cut:
    """Which turns to leave out.

    Attributes:
        num_turns: how many of the oldest, for `events.ContextCut`.
        policy: whether a summary stands for them.
        use: of the context afterwards; a summary is counted in full length.
    """

    num_turns: int
    policy: CutPolicy
    use: ContextUse


def choose_cut(
    conversation: Conversation,
    text: str,
    count: CountTokens,
    context_tokens: int,
    reserve_tokens: int,
    policy: CutPolicy = "drop",
) -> Cut:
    """The oldest turns that have to go so that there is room for a message and its reply, and for some more.

    As few as leave `LOW_SHARE` of the room in use, so that it does not happen with every turn; where that
    would be all of them, as few as make it fit. A summary made earlier stays when turns are dropped.

    Args:
        conversation: before the message; to answer its last turn anew, the conversation without that turn.
        text: the new message.
        count: the prompt's tokens.
        context_tokens: what the context holds.
        reserve_tokens: see `reply_reserve`.
        policy: with `summarize`, room for the summary is counted.

    Raises:
        ContextOverflowError: the message does not fit even alone behind the system message.
    """

    def use_after(num_turns: int) -> ContextUse:
        summary = conversation.summary if policy == "drop" else ""
        prompt = apply(conversation, ContextCut(num_turns, summary)).prompt(text)
        use = context_use(prompt, count, context_tokens, reserve_tokens)
        extra = summary_tokens(context_tokens) if policy == "summarize" else 0
        return replace(use, prompt_tokens=use.prompt_tokens + extra)

    fewest, most = conversation.num_cut_turns + 1, len(conversation.turns)
    if fewest > most:
        raise ContextOverflowError(count(conversation.prompt(text)), context_tokens)
    room = context_tokens - reserve_tokens
    # More turns left out never make a longer prompt, so both can be found by halving.
    candidates = range(fewest, most + 1)
    enough = bisect_left(candidates, True, key=lambda n: use_after(n).prompt_tokens <= LOW_SHARE * room)
    if enough >= len(candidates) - 1:
        enough = bisect_left(candidates, True, key=lambda n: use_after(n).fits)
    num_turns = candidates[min(enough, len(candidates) - 1)]
    use = use_after(num_turns)
    if not use.fits:
        raise ContextOverflowError(use.prompt_tokens, context_tokens)
    return Cut(num_turns, policy, use)
