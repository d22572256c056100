"""How fast a plan will be, from stored measurements alone. Imports neither llama.cpp nor NumPy."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from homespec.calibration.costs import DrafterCosts
from homespec.calibration.curve import RunningCurve
from homespec.calibration.store import Calibration, remembered_calibration
from homespec.contracts import Costs
from homespec.drafting.ledger import COPYING_KINDS, NEW_SHARE, Gain, Tally
from homespec.drafting.length import Rates, best_hope, expected_speedup
from homespec.engine.experience import Experience
from homespec.engine.preparing import NGRAM, Preparation
from homespec.engine.settings import AUTO_DRAFT_LENGTH

# Of usual length; the speed is foretold for the middle of such a reply.
_PROMPT_TOKENS, _REPLY_TOKENS = 128, 256
DEPTH_TOKENS = _PROMPT_TOKENS + _REPLY_TOKENS // 2


@dataclass(frozen=True, slots=True)
class Forecast:
    """The speed to expect. A draft model's reading of the prompt counts as writing.

    Attributes:
        prompt_tokens_per_second: of the target reading a prompt.
        plain_tokens_per_second: of plain decoding.
        tokens_per_second: by kind of text, of decoding under control, as far as such text has been seen.
        usual_tokens_per_second: the same, greedy and sampled texts of a kind taken together.
        unseen_tokens_per_second: the first guess for other texts.
        draft_is_hopeless: the draft model would cost more than it could ever give, and is not loaded.
        draft_is_measured: False where a draft model is planned whose costs are not known here.
    """

    prompt_tokens_per_second: float
    plain_tokens_per_second: float
    tokens_per_second: dict[str, float]
    usual_tokens_per_second: dict[str, float]
    unseen_tokens_per_second: float
    draft_is_hopeless: bool
    draft_is_measured: bool


def foretell(preparation: Preparation) -> Forecast | None:
    """The forecast for a plan; None when the target was not measured here."""
    found = remembered_calibrations(preparation)
    target, drafts = found[0], found[1:]
    if target is None or target.target is None:
        return None
    hopeless = preparation.settings.draft == "auto" and is_hopeless(found)
    calibrations = [target] if hopeless else [target, *(draft for draft in drafts if draft is not None)]
    is_measured = all(draft is not None and draft.drafter is not None for draft in drafts)
    curve = RunningCurve(target.target.curve)
    experience = Experience(calibrations)
    experience.recall_costs(curve)
    plain = 1 / curve.usual_plain_seconds(min(DEPTH_TOKENS, preparation.option.context_tokens))
    gains: dict[str, Gain] = {}
    unseen = 1.0
    if preparation.reason == "on":
        gains = experience.recall_gains()
        unseen = first_guess(curve, [one.drafter for one in calibrations[1:] if one.drafter])
    speeds = {kind: plain * gain.speedup for kind, gain in gains.items()}
    usual = {kind: plain * speedup for kind, speedup in _usual_speedups(gains).items()}
    prompt = target.target.prefill_tokens_per_second
    return Forecast(prompt, plain, speeds, usual, plain * unseen, hopeless, is_measured)


def remembered_calibrations(preparation: Preparation) -> list[Calibration | None]:
    """The newest of the target, and of the draft model where one is planned, without loading llama.cpp."""
    settings, option = preparation.settings, preparation.option
    models = [(preparation.target, settings.kv_type)]
    if option.kind == "draft" and preparation.draft is not None:
        models.append((preparation.draft, option.draft_kv_type))
    return [
        remembered_calibration(
            candidate.model.path, kv_type=kv_type, repack=settings.repack, mmap=settings.mmap
        )
        for candidate, kv_type in models
    ]


def _usual_speedups(gains: Mapping[str, Gain]) -> dict[str, float]:
    """By kind of text, in whatever manner (`routing.Routing`) its tokens were chosen."""
    by_kind: dict[str, list[Gain]] = {}
    for name, gain in gains.items():
        by_kind.setdefault(name.partition(",")[0], []).append(gain)
    return {
        kind: sum(gain.tokens for gain in seen) / sum(gain.plain_steps for gain in seen)
        for kind, seen in by_kind.items()
    }


def calibrate_command(preparation: Preparation) -> str:
    """What measures all that a forecast for the plan needs."""
    settings = preparation.settings
    words = ["homespec", "calibrate", settings.target]
    if settings.draft != "auto" and preparation.draft is not None:
        words += ["--draft", settings.draft.removeprefix(f"{NGRAM}+")]
    if settings.kv_type != "f16":
        words += ["--kv", settings.kv_type]
    words += [] if settings.mmap else ["--no-mmap"]
    words += [] if settings.repack else ["--no-repack"]
    return shlex.join(words)


def is_hopeless(calibrations: Sequence[Calibration | None]) -> bool:
    """Whether the draft model could not pay if it were nearly always right; False where that is not known.

    Args:
        calibrations: of the target, and of the draft model if there is one.
    """
    target, drafter = (*calibrations, None)[:2]
    if target is None or target.target is None or drafter is None or drafter.drafter is None:
        return False
    curve = target.target.curve
    rates = Rates(curve, curve.depths_tokens[0], 1.0, 1 + AUTO_DRAFT_LENGTH)
    token_steps, _ = drafter.drafter.in_plain_steps(curve.plain_seconds)
    return best_hope(rates, token_steps) <= rates.plain()


def first_guess(costs: Costs, draft_costs: Sequence[DrafterCosts], copies_of: str | None = None) -> float:
    """How many times as fast as plain decoding a kind of text will go that has not been seen yet.

    By the measured costs, with a draft model's usual acceptance. What lookup will find nobody knows, except
    that greedy replies which change given text copy most of it.

    Args:
        costs: of the target's decodes.
        draft_costs: of the draft model, if there is one.
        copies_of: kind of text, as the controller knows it, where lookup is used.
    """
    rates = Rates(costs, DEPTH_TOKENS, 1.0, 1 + AUTO_DRAFT_LENGTH)
    speedup = max((1.0, *(_guess(rates, draft) for draft in draft_costs)))
    if copies_of not in COPYING_KINDS:
        return speedup
    copying = max(speedup, expected_speedup(rates, 0.0, Tally().acceptance))
    return 1 / (NEW_SHARE / speedup + (1 - NEW_SHARE) / copying)


def _guess(rates: Rates, draft: DrafterCosts) -> float:
    """The speedup of a usual reply, for which the draft model has to read a usual prompt."""
    token_steps, read_steps = draft.in_plain_steps(rates.plain_seconds)
    speedup = expected_speedup(rates, token_steps, Tally().acceptance)
    return _REPLY_TOKENS / (_REPLY_TOKENS / speedup + _PROMPT_TOKENS * read_steps)
