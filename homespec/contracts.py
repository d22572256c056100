"""The system on one page: what the parts of the decoding loop promise to each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Literal, Protocol, runtime_checkable

from homespec.records import Draft, FloatArray, StepRecord, TokenDistribution, Verdict

Rows = Literal["none", "last", "all"]


class Going(IntEnum):
    """What a drafter is to do with the token that it is about to draw."""

    STOP = 0
    """Leave it; the draft ends before it."""
    ON = 1
    """Draw it, and look at the next one."""
    LAST = 2
    """Draw it, and end the draft: looking at the next one would cost more than it promises."""


KeepGoing = Callable[[float], int]
"""Asked with the drafter's confidence in its next token; answers one of `Going`."""


@runtime_checkable
class TokenModel(Protocol):
    """A language model with a KV cache that holds a prefix of one token sequence."""

    @property
    def vocab_size(self) -> int:
        """Number of token ids; the length of a row of logits."""

    @property
    def context_tokens(self) -> int:
        """The most tokens that the KV cache holds."""

    @property
    def cached_tokens(self) -> Sequence[int]:
        """The tokens in the KV cache now; a view, not to be modified."""

    @property
    def num_cached_tokens(self) -> int:
        """How many they are."""

    def decode(self, tokens: Sequence[int], rows: Rows = "all") -> FloatArray:
        """Appends tokens to the KV cache and returns logits.

        Args:
            tokens: at least one token id.
            rows: the tokens whose logits are wanted.

        Returns:
            Shape (0 | 1 | len(tokens), vocab_size), float32: row i holds the logits for the token after
            tokens[i]. It may be a view that is valid only until the next decode.

        Raises:
            DecodeAbortedError: stopped on request; the KV cache is as before the call.
            DecodeError: llama.cpp failed; the KV cache is as before the call.
        """

    def truncate(self, num_tokens: int) -> None:
        """Keeps the first `num_tokens` tokens of the KV cache.

        Raises:
            CacheRollbackError: this model cannot; its KV cache is now empty.
        """


class Drafter(Protocol):
    """Proposes tokens that probably follow. It lives for one request; models and caches outlive it."""

    @property
    def name(self) -> str:
        """What statistics call it, for example `ngram`."""

    def propose(self, tokens: Sequence[int], max_tokens: int, keep_going: KeepGoing) -> Draft:
        """Proposes at most `max_tokens` tokens to follow `tokens`.

        The history may differ from the last call's in any way; the drafter finds what still holds by
        longest common prefix. An empty draft is normal.

        Args:
            tokens: the whole history, the pending token included.
            max_tokens: at least 1.
            keep_going: asked with the drafter's confidence in the next token before that token is drawn.
        """


class Verifier(Protocol):
    """Accepts a prefix of a draft and adds one token, so that the target's distribution is kept."""

    def verify(self, history: Sequence[int], draft: Draft, logits: FloatArray) -> Verdict:
        """Judges a draft.

        Args:
            history: the committed tokens, the pending token included.
            draft: k proposed tokens; k may be 0, which makes this plain sampling.
            logits: shape (k + 1, vocab_size), the target's rows after the pending token and after each
                draft token. Not modified.
        """


class LengthPolicy(Protocol):
    """Decides how far to speculate."""

    def next_length(self, room: int) -> int:
        """The draft length for the next step, from 0 (plain) to `room`."""

    def keep_going(self, confidence: float) -> int:
        """What to do with a draft token of which the drafter is this sure; one of `Going`.

        It is asked before the token is drawn. Under `rejection` that is what keeps the law: a rule that
        saw the drawn token would favour some tokens over others.
        """

    def observe(self, step: StepRecord) -> None:
        """Learns from a finished step."""


class Costs(Protocol):
    """What a decode of the target costs on this machine."""

    def seconds(self, width: int, depth_tokens: int) -> float:
        """Seconds of a decode of `width` tokens behind `depth_tokens` cached ones."""


class CostModel(Costs, Protocol):
    """Costs that follow what really happens."""

    def observe(self, width: int, depth_tokens: int, seconds: float) -> None:
        """Learns from a decode that was made."""


class Chance(Protocol):
    """Where all randomness of one request comes from.

    Tests replace it by one that takes every branch, and so enumerate the law through the real code.
    """

    def happens(self, probability: float) -> bool:
        """True with the given probability."""

    def choose(self, distribution: TokenDistribution, position: int) -> int:
        """A token drawn from the distribution, to stand at the absolute position in the sequence."""
