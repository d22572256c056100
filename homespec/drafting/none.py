"""Plain decoding, as a drafter."""

from __future__ import annotations

from collections.abc import Sequence

from homespec.contracts import KeepGoing
from homespec.records import NO_DRAFT, Draft


class NoDrafter:
    """Proposes nothing."""

    name = "none"

    def propose(self, tokens: Sequence[int], max_tokens: int, keep_going: KeepGoing) -> Draft:
        """Always the empty draft."""
        return NO_DRAFT
