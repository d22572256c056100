"""Acceptance by equality: for verifiers in which the target's own choice at each row is a fixed token."""

from __future__ import annotations

from collections.abc import Iterable

from homespec.records import Verdict


def match(draft_tokens: tuple[int, ...], target_tokens: Iterable[int]) -> Verdict:
    """Commits the target's tokens up to the first that differs from the draft, that one included.

    Args:
        draft_tokens: k tokens.
        target_tokens: k + 1 tokens, of which no more are asked for than are committed.
    """
    committed: list[int] = []
    for token in target_tokens:
        committed.append(token)
        index = len(committed) - 1
        if index == len(draft_tokens) or draft_tokens[index] != token:
            break
    return Verdict(len(committed) - 1, tuple(committed))
