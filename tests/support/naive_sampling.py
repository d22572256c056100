"""The sampling options as their definitions say, step by step in float64: what the fast code must equal."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from homespec.records import FloatArray, SamplingParams


def naive_logits(params: SamplingParams, row: FloatArray, context: Sequence[int]) -> list[float]:
    """Logit bias, repetition penalty, presence penalty, frequency penalty."""
    logits = [float(value) for value in row]
    for token, bias in params.logit_bias:
        logits[token] += bias
    window = list(context)
    if params.penalty_window_tokens:
        window = window[-params.penalty_window_tokens :]
    for token in set(window):
        if logits[token] > 0:
            logits[token] /= params.repeat_penalty
        else:
            logits[token] *= params.repeat_penalty
        logits[token] -= params.presence_penalty
        logits[token] -= params.frequency_penalty * window.count(token)
    return logits


def naive_probs(
    params: SamplingParams, row: FloatArray, context: Sequence[int]
) -> tuple[npt.NDArray[np.float64], float]:
    """Temperature, top-k, top-p, min-p, each on the renormalised outcome of the one before.

    Returns:
        Probabilities of shape (vocab_size,); and how near top-p or min-p came to keeping a token more or
        less, relative to 1, which bounds the rounding that a comparison can stand.
    """
    logits = np.array(naive_logits(params, row, context)) / params.temperature
    ranked = sorted(range(logits.size), key=lambda token: (-logits[token], token))
    probs = np.exp(logits - logits.max())
    margin = math.inf
    if params.top_k:
        probs[ranked[params.top_k :]] = 0.0
    probs /= probs.sum()
    if params.top_p < 1:
        running = 0.0
        for rank, token in enumerate(ranked):
            running += probs[token]
            margin = min(margin, abs(running - params.top_p))
            if running >= params.top_p:
                probs[ranked[rank + 1 :]] = 0.0
                break
        probs /= probs.sum()
    if params.min_p > 0:
        relative = probs / probs.max()
        inside = relative > 0
        margin = min(margin, float(np.min(np.abs(relative[inside] / params.min_p - 1))))
        probs[relative < params.min_p] = 0.0
        probs /= probs.sum()
    return probs, margin
