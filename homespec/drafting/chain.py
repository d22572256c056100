"""Several drafters, asked in order of their cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from homespec.contracts import Drafter, KeepGoing
from homespec.records import NO_DRAFT, Draft


class ChainDrafter:
    """Takes the first proposal that is not empty: n-gram lookup is nearly free, so it goes first."""

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._drafters = tuple(drafters)

    @property
    def name(self) -> str:
        """The links, joined by `+`."""
        return "+".join(drafter.name for drafter in self._drafters)

    def propose(self, tokens: Sequence[int], max_tokens: int, keep_going: KeepGoing) -> Draft:
        """See `Drafter.propose`."""
        for drafter in self._drafters:
            draft = drafter.propose(tokens, max_tokens, keep_going)
            if draft.tokens:
                return replace(draft, drafter=draft.drafter or drafter.name)
        return NO_DRAFT
