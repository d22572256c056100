"""A row of logits -> a distribution: bias, penalties, temperature, top-k, top-p, min-p, in this order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from homespec.errors import ConfigError, DecodeError, NoTokenError
from homespec.records import FloatArray, IntArray, SamplingParams, TokenDistribution
from homespec.sampling.distributions import full_support
from homespec.sampling.truncation import largest, nucleus, nucleus_of_few
from homespec.sampling.validation import check_params

# Up to so many candidates, NumPy's calls take longer than what they do.
_FEW_TOKENS = 128


class Processors:
    """The request's sampling options, applied to rows of logits of the target or of a draft model.

    Rows have shape (vocab_size,), float32 or float64, and are never modified: they are views into memory of
    llama.cpp. Exponentials of many tokens are taken in the rows' own dtype; their sums are float64.

    A context is the tokens before the one that the row is for; only penalties look at it.
    """

    def __init__(self, params: SamplingParams, num_tokens: int | None = None) -> None:
        """Prepares the options.

        Args:
            params: the request's options.
            num_tokens: only ids below it can be chosen, and a bias on others is ignored: for a draft model
                which shares only its first ids with the target. None is the whole row.

        Raises:
            ConfigError: an option is out of range.
        """
        check_params(params)
        self._params = params
        self._num_tokens = num_tokens
        bias = [
            (token, value) for token, value in params.logit_bias if num_tokens is None or token < num_tokens
        ]
        self._bias_ids: IntArray = np.array([token for token, _ in bias], dtype=np.int64)
        self._bias = np.array([value for _, value in bias], dtype=np.float64)
        self._penalises = (
            params.repeat_penalty != 1 or params.presence_penalty != 0 or params.frequency_penalty != 0
        )

    def adjusted(self, row: FloatArray, context: Sequence[int]) -> FloatArray:
        """The logits after bias and penalties: the row itself, or a copy where an option changes it.

        Raises:
            ConfigError: a bias is on a token that the row does not have.
        """
        row = row[: self._num_tokens]
        if not self._bias_ids.size and not self._penalises:
            return row
        adjusted = row.copy()
        with np.errstate(over="ignore"):  # An option may ban a token by any hugely negative number.
            self._add_bias(adjusted)
            self._penalise(adjusted, context)
        return adjusted

    def argmax(self, row: FloatArray, context: Sequence[int]) -> int:
        """The most probable token, the lowest id among equals; what greedy decoding takes.

        Raises:
            DecodeError: the row has no largest finite logit.
            ConfigError: a bias is on a token that the row does not have.
        """
        return peak_index(self.adjusted(row, context))

    def distribution(self, row: FloatArray, context: Sequence[int]) -> TokenDistribution:
        """The distribution that the next token is drawn from; the temperature must not be 0.

        Each truncation sees the distribution that the one before it left: top-p counts mass within the
        top k, min-p is relative to the most probable token. Ties at the cut of top-k and top-p go to the
        lowest ids, so exactly as many tokens stay as was asked for.

        Raises:
            DecodeError: the row has no largest finite logit.
            ConfigError: a bias is on a token that the row does not have.
        """
        params = self._params
        logits = self.adjusted(row, context)
        peak = float(logits[peak_index(logits)])
        ids = self._candidates(logits, peak)
        if ids is not None and ids.size <= _FEW_TOKENS:
            return self._of_few(logits[ids].tolist(), ids, peak)
        with np.errstate(over="ignore"):  # -inf is right for a logit that far below the peak.
            weights = (logits if ids is None else logits[ids]) - peak
            if params.temperature != 1:
                weights /= params.temperature
        np.exp(weights, out=weights)
        kept = None
        if params.top_p < 1:
            kept = nucleus(weights, params.top_p * float(weights.sum(dtype=np.float64)), params.min_p)
        elif params.min_p > 0:
            kept = np.flatnonzero(weights >= params.min_p)
        if kept is not None:
            weights = weights[kept]
            ids = kept if ids is None else ids[kept]
        return TokenDistribution(full_support(logits.size) if ids is None else ids, weights)

    def _of_few(self, logits: list[float], ids: IntArray, peak: float) -> TokenDistribution:
        """The same for so few candidates that plain Python is faster than NumPy's calls."""
        params = self._params
        weights = [math.exp((logit - peak) / params.temperature) for logit in logits]
        mass = params.top_p * sum(weights) if params.top_p < 1 else math.inf
        kept = nucleus_of_few(weights, mass, params.min_p)
        kept_weights = np.array([weights[index] for index in kept])
        return TokenDistribution(ids[kept] if len(kept) < ids.size else ids, kept_weights)

    def distributions(
        self, history: Sequence[int], draft_tokens: Sequence[int], logits: FloatArray
    ) -> Iterator[TokenDistribution]:
        """`distribution` of each row of a verify, computed only when asked for.

        Args:
            history: the committed tokens.
            draft_tokens: k tokens; row i has history + draft_tokens[:i] as its context.
            logits: shape (k + 1, vocab_size).
        """
        for row, context in self._rows(history, draft_tokens, logits):
            yield self.distribution(row, context)

    def argmaxes(
        self, history: Sequence[int], draft_tokens: Sequence[int], logits: FloatArray
    ) -> Iterator[int]:
        """`argmax` of each row of a verify, computed only when asked for; arguments as in `distributions`."""
        for row, context in self._rows(history, draft_tokens, logits):
            yield self.argmax(row, context)

    def _rows(
        self, history: Sequence[int], draft_tokens: Sequence[int], logits: FloatArray
    ) -> Iterator[tuple[FloatArray, Sequence[int]]]:
        if not self._penalises:
            for row in logits:
                yield row, ()
            return
        # A window of 0 is all: history[-0:] is the whole history.
        tokens = [*history[-self._params.penalty_window_tokens :], *draft_tokens]
        num_committed = len(tokens) - len(draft_tokens)
        for index, row in enumerate(logits):
            yield row, tokens[: num_committed + index]

    def _add_bias(self, logits: FloatArray) -> None:
        if not self._bias_ids.size:
            return
        highest = int(self._bias_ids.max())
        if highest >= logits.size:
            raise ConfigError(
                f"logit_bias names token {highest}; the model has {logits.size:,} tokens.",
                hint=f"Use token ids from 0 to {logits.size - 1}.",
            )
        logits[self._bias_ids] += self._bias.astype(logits.dtype)

    def _penalise(self, logits: FloatArray, context: Sequence[int]) -> None:
        if not self._penalises:
            return
        params = self._params
        window = np.array(context[-params.penalty_window_tokens :], dtype=np.int64)
        tokens, counts = np.unique(window[window < logits.size], return_counts=True)
        seen = logits[tokens]
        seen = np.where(seen > 0, seen / params.repeat_penalty, seen * params.repeat_penalty)
        logits[tokens] = seen - params.presence_penalty - params.frequency_penalty * counts

    def _candidates(self, logits: FloatArray, peak: float) -> IntArray | None:
        """Ids, ascending, that hold the truncated support, found before any exponential; None is all."""
        params = self._params
        if 0 < params.top_k < logits.size:
            return largest(logits, params.top_k, peak)
        if params.min_p > 0 and params.top_p == 1:
            # Slightly below the cut, for rounding; the cut itself is made on the weights, as always.
            slack = 0.01 * params.temperature + 1e-6 * abs(peak)
            return np.flatnonzero(logits >= peak + params.temperature * math.log(params.min_p) - slack)
        return None


def peak_index(logits: FloatArray) -> int:
    """The index of the largest logit, the lowest among equals.

    Raises:
        NoTokenError: every logit is -inf.
        DecodeError: the largest is not finite.
    """
    index = int(logits.argmax())  # The first NaN where there is one.
    peak = float(logits[index])
    if not math.isfinite(peak):
        none_left = peak == -math.inf
        found = "every logit is -inf" if none_left else f"the logit of token {index} is {peak}"
        raise (NoTokenError if none_left else DecodeError)(
            f"The model's logits name no next token: {found}.",
            hint="Check logit_bias, then the model file: a damaged one gives such logits.",
        )
    return index
