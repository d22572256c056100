"""What a cache and a history have in common."""

from __future__ import annotations

from collections.abc import Sequence

from homespec.contracts import TokenModel
from homespec.errors import CacheRollbackError


def common_prefix_length(first: Sequence[int], second: Sequence[int]) -> int:
    """How many leading tokens are the same.

    Compares slices, at C speed, and halves the rest: histories nearly always agree in full, and this runs
    in every step over the whole context.
    """
    low, high = 0, min(len(first), len(second))
    if first[:high] == second[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle
    return low


def rewind(model: TokenModel, tokens: Sequence[int]) -> int:
    """Truncates a KV cache to what it shares with a history, the history's last token excepted.

    Returns:
        How many tokens are left in the cache. Where the model cannot truncate, that is 0: the history has to
        be decoded anew.
    """
    kept = min(common_prefix_length(model.cached_tokens, tokens), len(tokens) - 1)
    if kept == model.num_cached_tokens:
        return kept
    try:
        model.truncate(kept)
    except CacheRollbackError:
        return 0
    return kept
