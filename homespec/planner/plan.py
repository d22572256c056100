"""The plan: which context, which drafter, and why. A pure function of facts, headroom and policy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from homespec.planner.options import LEAST_CONTEXT_TOKENS, Option, Policy, Pricing, Verdict
from homespec.planner.prices import KvType, MemoryFacts
from homespec.planner.search import largest_context, longest_sensible_context
from homespec.units import format_bytes

Reason = Literal["on", "off_by_user", "would_page", "would_shrink_context"]
"""The reason codes of `records.ReasonCode` that are about memory."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to run, and why.

    Attributes:
        chosen: the way to run.
        options: everything that was considered, in order, for comparison; `chosen` is among them.
        headroom_bytes: what the machine can give.
        speculation: whether there is a drafter.
        reason: why, or why not.
        explanation: the same in one sentence for people.
        given_up_context_tokens: how much context the drafter took; never without `--prefer speed`.
        advice: what to change to get something else.
    """

    chosen: Option
    options: tuple[Option, ...]
    headroom_bytes: int
    speculation: bool
    reason: Reason
    explanation: str
    given_up_context_tokens: int
    advice: tuple[str, ...]

    @property
    def context_tokens(self) -> int:
        """Of the target."""
        return self.chosen.context_tokens

    @property
    def verdict(self) -> Verdict:
        """Of the chosen way to run."""
        return self.chosen.verdict

    @property
    def needed_bytes(self) -> int:
        """What the chosen way needs."""
        return self.chosen.price.needed_bytes


def make_plan(target: MemoryFacts, draft: MemoryFacts | None, headroom_bytes: int, policy: Policy) -> Plan:
    """Plans a run.

    The order: the context that was asked for, without speculation; n-gram; draft model with the whole
    context; with a window of it; with a quantized KV cache as well; no drafter. With `prefer` set to context
    a drafter never changes the context; with speed it may take from it, down to 1,024 tokens.

    Args:
        target: facts of the target.
        draft: facts of the draft model, if one is wanted.
        headroom_bytes: what models may use; see `telemetry.machine`.
        policy: what the user asked for.
    """
    pricing = Pricing(target, draft, headroom_bytes, policy)
    cap_tokens = longest_sensible_context(target.training_context_tokens)
    if policy.context_tokens == "max":
        context_tokens = _largest_plain_context(pricing, cap_tokens)
    else:
        context_tokens = cap_tokens = policy.context_tokens
    plain = pricing.plain(context_tokens)
    options = [plain, pricing.ngram(context_tokens)]
    if draft is None:
        return _plan_without_draft_model(pricing, options)

    at_context = list(pricing.draft_options(context_tokens))
    # Beside a context of `max` tokens a drafter has room only by chance, in what is left below the price of
    # another step. So that more memory never turns a drafter off, it gets none before the context is whole.
    may_stand_beside = plain.fits and context_tokens == cap_tokens
    found = next((option for option in at_context if option.fits), None) if may_stand_beside else None
    shrunken = None if found else _shrunken(pricing, cap_tokens, context_tokens)
    if found is None and policy.prefer == "speed":
        found = shrunken
    shown = [*options, *_representative(at_context, found)]
    if found is not None:
        return _plan_on(pricing, found, shown, context_tokens)
    return _plan_off(pricing, shown, shrunken)


def _largest_plain_context(pricing: Pricing, cap_tokens: int) -> int:
    """The context for `max`.

    The n-gram index always counts, so that wanting one changes nothing; a corpus counts as it was asked for.
    """
    least_tokens = min(LEAST_CONTEXT_TOKENS, cap_tokens)
    found = largest_context(lambda tokens: pricing.ngram(tokens).fits, least_tokens, cap_tokens)
    return found or least_tokens


def _shrunken(pricing: Pricing, cap_tokens: int, context_tokens: int) -> Option | None:
    """The draft model beside the largest context that leaves it room."""
    most_tokens = cap_tokens if pricing.policy.context_tokens == "max" else context_tokens - 1
    found = largest_context(
        lambda tokens: pricing.draft_option(tokens).fits, min(LEAST_CONTEXT_TOKENS, cap_tokens), most_tokens
    )
    return None if found is None else pricing.draft_option(found)


def _representative(at_context: list[Option], found: Option | None) -> list[Option]:
    """Of the many windows only the ones worth showing: the first, the last of each kind, and the choice."""
    by_kind: dict[tuple[bool, KvType], Option] = {}
    for option in at_context:
        windowed = option.draft_context_tokens < option.context_tokens
        by_kind[windowed, option.draft_kv_type] = option
    shown = list(by_kind.values())
    return shown if found is None or found in shown else [*shown, found]


def _plan_without_draft_model(pricing: Pricing, options: list[Option]) -> Plan:
    plain, ngram = options
    if not pricing.policy.ngram:
        return _finish(pricing, plain, options, "off_by_user", "Speculation was switched off")
    if ngram.fits:
        return _finish(pricing, ngram, options, "on", "N-grams draft")
    plan = _finish(pricing, plain, options, "would_page", _cannot_join(plain, ngram, "n-gram drafter"))
    without_corpus = _with(pricing, replace(pricing.policy, corpus_bytes=0)).ngram(plain.context_tokens)
    return replace(plan, advice=("Leave out --corpus.",)) if without_corpus.fits else plan


def _plan_on(pricing: Pricing, found: Option, options: list[Option], context_tokens: int) -> Plan:
    assert pricing.draft is not None
    how = f"{pricing.draft.name} drafts"
    if found.draft_context_tokens < found.context_tokens:
        how += f" with a window of {found.draft_context_tokens:,} tokens"
    if found.draft_kv_type != pricing.policy.kv_type:
        how += f" and a KV cache in {found.draft_kv_type}"
    if pricing.draft.made_from == pricing.target.name:
        how += (
            "; it was made from the target, and its copies of the target's weights take memory of their own"
        )
    given_up = max(0, context_tokens - found.context_tokens)
    if given_up:
        how += f", which takes {given_up:,} of {context_tokens:,} tokens of context"
    return replace(_finish(pricing, found, options, "on", how), given_up_context_tokens=given_up)


def _plan_off(pricing: Pricing, options: list[Option], shrunken: Option | None) -> Plan:
    assert pricing.draft is not None
    plain, ngram = options[:2]
    if plain.fits and pricing.policy.fall_back and ngram.fits:
        how = f"N-grams draft, since there is no room for {pricing.draft.name}"
        return _finish(pricing, ngram, options, "on", how)
    cheapest = min((o for o in options if o.kind == "draft"), key=lambda option: option.price.needed_bytes)
    if plain.fits and shrunken is not None:
        why = (
            f"{pricing.draft.name} would leave room for a context of {shrunken.context_tokens:,} tokens "
            f"instead of {plain.context_tokens:,}"
        )
        plan = _finish(pricing, plain, options, "would_shrink_context", why)
        return replace(
            plan, advice=(*plan.advice, "Pass --prefer speed to have the drafter at the price of context.")
        )
    return _finish(pricing, plain, options, "would_page", _cannot_join(plain, cheapest, pricing.draft.name))


def _cannot_join(plain: Option, with_drafter: Option, name: str) -> str:
    if not plain.fits:
        return f"There is no room for {name}: the target alone does not fit"
    more_bytes = with_drafter.price.needed_bytes - plain.price.needed_bytes
    return f"{name} needs {format_bytes(more_bytes)} more, and would push weights out of memory"


def _finish(pricing: Pricing, chosen: Option, options: list[Option], reason: Reason, why: str) -> Plan:
    needed, headroom = chosen.price.needed_bytes, pricing.headroom_bytes
    return Plan(
        chosen=chosen,
        options=tuple(options),
        headroom_bytes=headroom,
        speculation=reason == "on",
        reason=reason,
        explanation=f"{why}; {format_bytes(needed)} of {format_bytes(headroom)} are needed.",
        given_up_context_tokens=0,
        advice=() if chosen.fits else _advice(pricing, chosen),
    )


def _advice(pricing: Pricing, chosen: Option) -> tuple[str, ...]:
    """Changes that would make the target alone fit, each by itself."""
    advice: list[str] = []
    least_tokens = min(LEAST_CONTEXT_TOKENS, chosen.context_tokens)
    smaller = largest_context(lambda tokens: pricing.plain(tokens).fits, least_tokens, chosen.context_tokens)
    if smaller is not None:
        advice.append(f"Pass --context-tokens {smaller}.")
    kv_types: tuple[KvType, ...] = ("q8_0", "q4_0")
    for kv_type in kv_types if pricing.policy.kv_type == "f16" else ():
        if _with(pricing, replace(pricing.policy, kv_type=kv_type)).plain(chosen.context_tokens).fits:
            advice.append(f"Pass --kv {kv_type}.")
            break
    without_copies = replace(pricing.policy, load=replace(pricing.policy.load, repack=False))
    if _with(pricing, without_copies).plain(chosen.context_tokens).fits:
        advice.append("Pass --no-repack: slower, but without second copies of weights.")
    return tuple(advice) or ("Choose a smaller model or a smaller quantization.",)


def _with(pricing: Pricing, policy: Policy) -> Pricing:
    return replace(pricing, policy=policy)
