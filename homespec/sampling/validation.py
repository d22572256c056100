"""The one place where sampling options are checked."""

from __future__ import annotations

import math
from collections import Counter

from homespec.errors import ConfigError
from homespec.records import SamplingParams

# Below this the temperature would overflow float32 arithmetic while it changes nothing: greedy says the same.
_MIN_TEMPERATURE = 1e-4
# Beyond this a bias would leave no digits of the logits in float32.
_MAX_BIAS = 1e6


def check_params(params: SamplingParams) -> None:
    """Checks every option against its range.

    Raises:
        ConfigError: an option is out of range; the message names it.
    """
    temperature = params.temperature
    penalty = params.repeat_penalty
    requirements = (
        ("temperature", temperature == 0 or _MIN_TEMPERATURE <= temperature < math.inf,
         f"0, or {_MIN_TEMPERATURE} or more and finite"),
        ("top_k", params.top_k >= 0, "0 (off) or a number of tokens"),
        ("top_p", 0 < params.top_p <= 1, "above 0 and at most 1"),
        ("min_p", 0 <= params.min_p <= 1, "from 0 to 1"),
        ("repeat_penalty", 0 < penalty < math.inf, "above 0 and finite"),
        ("presence_penalty", math.isfinite(params.presence_penalty), "finite"),
        ("frequency_penalty", math.isfinite(params.frequency_penalty), "finite"),
        ("penalty_window_tokens", params.penalty_window_tokens >= 0, "0 (all) or a number of tokens"),
        ("seed", 0 <= params.seed < 2**64, "from 0 to 2^64 - 1"),
    )  # fmt: skip
    for option, fits, range_text in requirements:
        if not fits:
            raise ConfigError(
                f"{option} is {getattr(params, option)}; it must be {range_text}.",
                hint=f"Give {option} a value in that range, or leave it out.",
            )
    _check_bias(params.logit_bias)


def _check_bias(logit_bias: tuple[tuple[int, float], ...]) -> None:
    for token, count in Counter(token for token, _ in logit_bias).items():
        if count > 1:
            raise ConfigError(
                f"logit_bias names token {token} {count} times.", hint="Give each token at most one bias."
            )
    for token, bias in logit_bias:
        if token < 0:
            raise ConfigError(
                f"logit_bias names token {token}; token ids start at 0.",
                hint="Use the ids that the target's tokenizer gives.",
            )
        if not bias <= _MAX_BIAS:  # Also true of NaN. Any negative bias is good: a low one bans the token.
            raise ConfigError(
                f"logit_bias of token {token} is {bias}; it must be {_MAX_BIAS:.0f} or less.",
                hint="Use a value from -100 to 100; -inf bans the token.",
            )
