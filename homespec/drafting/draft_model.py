"""A smaller model of the same vocabulary proposes tokens one by one (Leviathan et al. 2211.17192)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from homespec.contracts import Going, KeepGoing, TokenModel
from homespec.drafting.prefix import common_prefix_length, rewind
from homespec.errors import NoTokenError
from homespec.records import NO_DRAFT, Draft, TokenDistribution
from homespec.sampling import Picker

# A window that has moved on stays where it is when so many tokens of the history are taken back.
_TAKEN_BACK_TOKENS = 32


def window_start(num_tokens: int, context_tokens: int) -> int:
    """Where a draft model that cannot hold all of the history begins to read it.

    The window moves on by half of the context at a time: each move means to decode all that stays visible
    anew, so it must be rare. What the draft model does not see costs acceptance, never exactness.

    Args:
        num_tokens: history and draft.
        context_tokens: what the draft model's context holds.
    """
    hop = context_tokens // 2
    return max(0, -(-(num_tokens - context_tokens) // hop) * hop)


class DraftModelDrafter:
    """Drafts with a second model, whose KV cache follows the history by longest common prefix.

    Nothing is prefilled before the first proposal: a request that never drafts never pays for it.
    """

    name = "draft-model"

    def __init__(self, model: TokenModel, picker: Picker, is_end: Callable[[int], bool]) -> None:
        """Borrows the model.

        Args:
            model: the draft model; its vocabulary has passed the gate against the target's.
            picker: chooses tokens from its logits through the request's processors.
            is_end: whether a token ends the reply; nothing is drafted after one.
        """
        self._model = model
        self._picker = picker
        self._is_end = is_end
        self._start = 0

    def _window(self, num_tokens: int) -> int:
        """Where to begin to read a history with its draft, of so many tokens together."""
        size = self._model.context_tokens
        # Rejected tokens shorten the history, often to and fro over the place where the window moves.
        soon = window_start(num_tokens + min(_TAKEN_BACK_TOKENS, size // 4), size)
        return self._start if self._start == soon else window_start(num_tokens, size)

    def behind(self, tokens: Sequence[int]) -> int:
        """How many tokens of the history it would have to decode before it can draft."""
        visible = tokens[self._window(len(tokens)) :]
        return len(visible) - common_prefix_length(self._model.cached_tokens, visible)

    def propose(self, tokens: Sequence[int], max_tokens: int, keep_going: KeepGoing) -> Draft:
        """See `Drafter.propose`."""
        if self._is_end(tokens[-1]):
            return NO_DRAFT
        max_tokens = min(max_tokens, self._model.context_tokens // 2)
        # The last drafted token need not be decoded: only its predecessors enter the draft model's cache.
        self._start = self._window(len(tokens) + max_tokens - 1)
        visible = tokens[self._start :]
        new = visible[rewind(self._model, visible) :]
        if max(new) >= self._model.vocab_size:  # a token of the target's padded tail
            return NO_DRAFT
        row = self._model.decode(new, rows="last")[0]
        context = list(tokens)
        probs: list[TokenDistribution] = []
        confidences: list[float] = []
        while True:
            try:
                candidate = self._picker.look(row, context)
            except NoTokenError:  # A trimmed vocabulary may lack all that the request permits here.
                keep_going(0.0)  # The decode that showed it was paid for.
                break
            going = keep_going(candidate.confidence)
            if going == Going.STOP:
                break
            token, distribution = candidate.draw(len(context))
            context.append(token)
            confidences.append(candidate.confidence)
            if distribution is not None:
                probs.append(distribution)
            if going == Going.LAST or len(confidences) == max_tokens or self._is_end(token):
                break
            row = self._model.decode([token], rows="last")[0]
        return Draft(tuple(context[len(tokens) :]), tuple(probs) or None, tuple(confidences))
