"""How often a draft model would say what the target says: the share of equal greedy choices on given text.

One decode answers for many tokens at once (the target's own words are given, not the draft model's), so that
this is a matter of seconds where drafting the same text would be one of minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from homespec.contracts import TokenModel

MAX_ROWS = 64
"""Rows of logits that one decode asks for; a context for this is opened with so many."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A prompt with the target's greedy reply to it.

    Attributes:
        prompt: at least one token.
        reply: the tokens that are compared.
    """

    prompt: tuple[int, ...]
    reply: tuple[int, ...]


def greedy_sample(
    target: TokenModel, prompt: Sequence[int], max_tokens: int, is_end: Callable[[int], bool]
) -> Sample:
    """Lets the target answer greedily, an end token included.

    Args:
        target: what its KV cache holds is dropped.
        prompt: at least one token.
        max_tokens: the most tokens of the reply.
        is_end: whether a token ends a reply.
    """
    target.truncate(0)
    reply: list[int] = []
    new = list(prompt)
    while len(reply) < max_tokens:
        token = int(target.decode(new, rows="last")[0].argmax())
        reply.append(token)
        if is_end(token):
            break
        new = [token]
    return Sample(tuple(prompt), tuple(reply))


def agreement(model: TokenModel, samples: Sequence[Sample]) -> float:
    """The share of reply tokens, 0 to 1, that the model's greedy choice equals, given all before them.

    Args:
        model: opened for `MAX_ROWS` rows; what its KV cache holds is dropped.
        samples: at least one reply token in all.
    """
    num_equal = num_tokens = 0
    for sample in samples:
        model.truncate(0)
        if len(sample.prompt) > 1:
            model.decode(sample.prompt[:-1], rows="none")
        before = (sample.prompt[-1], *sample.reply)
        for start in range(0, len(sample.reply), MAX_ROWS):
            wanted = sample.reply[start : start + MAX_ROWS]
            rows = model.decode(before[start : start + len(wanted)], rows="all")
            num_equal += int((rows.argmax(axis=1) == wanted).sum())
            num_tokens += len(wanted)
    return num_equal / num_tokens
