"""Finds the largest context that fits. Prices only grow with the context, so halving intervals finds it."""

from __future__ import annotations

from collections.abc import Callable

# llama.cpp rounds contexts up to this many tokens; anything between costs as much as the next multiple.
CONTEXT_STEP_TOKENS = 256
# For models that do not say what they were trained on.
UNKNOWN_CONTEXT_TOKENS = 32_768


def largest_context(fits: Callable[[int], bool], least_tokens: int, most_tokens: int) -> int | None:
    """The largest context from `least_tokens` to `most_tokens` that fits, in whole steps or `most_tokens`.

    Args:
        fits: must not turn true again once it is false for a smaller context.
        least_tokens: the smallest context that is worth having.
        most_tokens: the largest that may be asked for.

    Returns:
        None when not even the smallest fits.
    """
    if most_tokens >= least_tokens and fits(most_tokens):
        return most_tokens
    first = -(-least_tokens // CONTEXT_STEP_TOKENS)
    last = (most_tokens - 1) // CONTEXT_STEP_TOKENS
    if first > last or not fits(first * CONTEXT_STEP_TOKENS):
        return None
    while first < last:
        middle = (first + last + 1) // 2
        if fits(middle * CONTEXT_STEP_TOKENS):
            first = middle
        else:
            last = middle - 1
    return first * CONTEXT_STEP_TOKENS


def longest_sensible_context(training_context_tokens: int) -> int:
    """The most tokens that a model can make sense of."""
    return training_context_tokens or UNKNOWN_CONTEXT_TOKENS
