"""Parts of drafts, and drafts of several parts."""

from __future__ import annotations

from homespec.records import Draft


def cut(draft: Draft, length: int) -> Draft:
    """The first tokens of a deterministic draft."""
    return Draft(draft.tokens[:length], None, draft.confidences[:length])


def join(draft: Draft, further: Draft) -> Draft:
    """One draft of two. Where only one of them was sampled, the other was drawn from certainties."""
    probs = None
    if draft.probs is not None or further.probs is not None:
        # Plans are made from what the controller learned, and must not pay for importing NumPy.
        from homespec.sampling.distributions import proposal

        probs = tuple(proposal(part, index) for part in (draft, further) for index in range(len(part.tokens)))
    return Draft((*draft.tokens, *further.tokens), probs, (*draft.confidences, *further.confidences))
