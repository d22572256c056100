"""Laws of the planner, whatever the models cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from homespec.planner.options import Policy
from homespec.planner.plan import Plan, make_plan
from homespec.planner.prices import MIB, KvType, LoadOptions, MemoryPrice, model_price
from tests.support.planner_facts import MadeUpFacts

_SETTINGS = settings(max_examples=150, deadline=None)

_FACTS = st.builds(
    MadeUpFacts,
    training_context_tokens=st.sampled_from([0, 512, 2048, 8192, 32_768]),
    vocab_size=st.integers(100, 200_000),
    state_bytes=st.sampled_from([0, 20 * MIB]),
    mapped_bytes=st.integers(1 * MIB, 4000 * MIB),
    overhead_bytes=st.integers(0, 60 * MIB),
    correction_bytes=st.integers(-1 * MIB, 50 * MIB),
    copied_bytes=st.integers(0, 1 * MIB),
    kv_bytes_per_token=st.integers(0, 200_000),
    compute_bytes_per_token=st.integers(0, 4000),
)
_CONTEXTS = st.one_of(st.just("max"), st.integers(16, 40_000))
_KV_TYPES: st.SearchStrategy[KvType] = st.sampled_from(["f16", "q8_0", "q4_0"])
_LOADS = st.builds(
    LoadOptions,
    mmap=st.booleans(),
    repack=st.booleans(),
    cpu_features=st.sampled_from([frozenset(), frozenset({"avx2"})]),
    num_rows=st.integers(1, 33),
)
_POLICIES = st.builds(
    Policy,
    context_tokens=_CONTEXTS,
    kv_type=_KV_TYPES,
    ngram=st.booleans(),
    corpus_bytes=st.sampled_from([0, 32 * MIB]),
    fall_back=st.booleans(),
    prefer=st.sampled_from(["context", "speed"]),
    load=_LOADS,
)
_DRAFTS = st.one_of(st.none(), _FACTS)
_HEADROOMS = st.integers(0, 8000 * MIB)

_ORDER = {"cannot_run": 0, "would_page": 1, "fits": 2}


@_SETTINGS
@given(_FACTS, _DRAFTS, _POLICIES, _HEADROOMS, st.integers(0, 2000 * MIB))
def test_more_memory_never_turns_a_drafter_off(
    target: MadeUpFacts, draft: MadeUpFacts | None, policy: Policy, headroom_bytes: int, more_bytes: int
) -> None:
    before = make_plan(target, draft, headroom_bytes, policy)
    after = make_plan(target, draft, headroom_bytes + more_bytes, policy)
    assert after.speculation >= before.speculation
    assert after.options[0].context_tokens >= before.options[0].context_tokens
    if policy.context_tokens != "max":
        assert _ORDER[after.options[0].verdict] >= _ORDER[before.options[0].verdict]


@_SETTINGS
@given(_FACTS, _KV_TYPES, _LOADS, st.integers(1, 40_000), st.integers(0, 40_000))
def test_a_longer_context_never_needs_less(
    facts: MadeUpFacts, kv_type: KvType, load: LoadOptions, tokens: int, more_tokens: int
) -> None:
    short = model_price(facts, tokens, kv_type, load)
    long = model_price(facts, tokens + more_tokens, kv_type, load)
    assert long.needed_bytes >= short.needed_bytes
    assert long.anon_bytes >= short.anon_bytes


@_SETTINGS
@given(_FACTS, _FACTS, _POLICIES, _HEADROOMS)
def test_preferring_context_the_drafter_takes_none(
    target: MadeUpFacts, draft: MadeUpFacts, policy: Policy, headroom_bytes: int
) -> None:
    policy = replace(policy, prefer="context")
    with_drafter = make_plan(target, draft, headroom_bytes, policy)
    without = make_plan(target, None, headroom_bytes, replace(policy, ngram=False))
    assert with_drafter.context_tokens == without.context_tokens
    assert with_drafter.given_up_context_tokens == 0


@_SETTINGS
@given(st.lists(st.builds(MemoryPrice, *[st.integers(0, 1 << 40)] * 14), min_size=1, max_size=4))
def test_the_parts_sum_to_the_total(prices: list[MemoryPrice]) -> None:
    total = sum(prices, MemoryPrice())
    assert total.needed_bytes == sum(price.needed_bytes for price in prices)
    assert total.needed_bytes == sum(total.parts().values()) == total.anon_bytes + total.file_bytes
    assert total.resident_bytes == total.needed_bytes + total.idle_bytes


def _is_consistent(plan: Plan, draft: MadeUpFacts | None, policy: Policy) -> None:
    assert plan.chosen in plan.options
    assert plan.speculation == (plan.reason == "on") == (plan.chosen.kind != "plain")
    assert (plan.reason == "off_by_user") == (draft is None and not policy.ngram)
    if plan.speculation:
        assert plan.chosen.fits
    assert (plan.needed_bytes <= plan.headroom_bytes) == (plan.verdict == "fits")
    assert (plan.chosen.price.anon_bytes > plan.headroom_bytes) == (plan.verdict == "cannot_run")
    assert plan.explanation.endswith(".")
    assert bool(plan.advice) >= (plan.verdict != "fits")


@_SETTINGS
@given(_FACTS, _DRAFTS, _POLICIES, _HEADROOMS)
def test_plans_are_consistent(
    target: MadeUpFacts, draft: MadeUpFacts | None, policy: Policy, headroom_bytes: int
) -> None:
    plan = make_plan(target, draft, headroom_bytes, policy)
    _is_consistent(plan, draft, policy)
    asked: int | Literal["max"] = policy.context_tokens
    if asked != "max":
        assert plan.context_tokens + plan.given_up_context_tokens == asked
    elif plan.given_up_context_tokens == 0 and plan.verdict == "fits":
        limit = target.training_context_tokens or 32_768
        assert plan.context_tokens <= limit
