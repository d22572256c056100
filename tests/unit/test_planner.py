"""The planner on a pair with round prices: verdicts, order of options, reasons, advice."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from homespec.planner.options import Policy
from homespec.planner.plan import Plan, make_plan
from homespec.planner.prices import (
    MEASURING_BATCH_TOKENS,
    MIB,
    PROCESS_ANON_BYTES,
    LoadOptions,
    model_price,
)
from homespec.planner.search import largest_context
from tests.support.planner_facts import MadeUpFacts

# 64 KiB a token: 256 MiB at 4096 tokens.
_TARGET = MadeUpFacts(
    "target.gguf", kv_bytes_per_token=1 << 16, compute_bytes_per_token=0, mapped_bytes=1000 * MIB
)
_DRAFT = MadeUpFacts(
    "draft.gguf", kv_bytes_per_token=1 << 14, compute_bytes_per_token=0, mapped_bytes=300 * MIB
)
_POLICY = Policy(context_tokens=4096)


def _plan(headroom_mib: int, policy: Policy = _POLICY, draft: MadeUpFacts | None = _DRAFT) -> Plan:
    return make_plan(_TARGET, draft, headroom_mib * MIB, policy)


@pytest.mark.parametrize(
    ("headroom_mib", "verdict", "reason"),
    [
        (300, "cannot_run", "would_page"),  # not even KV cache and tables
        (1300, "would_page", "would_page"),  # the weights would not stay
        (1400, "fits", "would_page"),  # the target alone
        (1700, "fits", "would_shrink_context"),  # the draft model beside a smaller context
        (1800, "fits", "on"),
    ],
)
def test_verdicts_and_reasons_in_order(headroom_mib: int, verdict: str, reason: str) -> None:
    plan = _plan(headroom_mib)
    assert (plan.verdict, plan.reason) == (verdict, reason)
    assert plan.context_tokens == 4096


def test_the_reasons_are_told_with_numbers() -> None:
    assert _plan(1400).explanation == (
        "draft.gguf needs 376 MB more, and would push weights out of memory; 1.42 GB of 1.47 GB are needed."
    )
    assert "context of 3,072 tokens instead of 4,096" in _plan(1700).explanation
    assert _plan(1700).advice == ("Pass --prefer speed to have the drafter at the price of context.",)


def test_scanning_memory_does_not_flicker() -> None:
    reasons = [_plan(mib).reason for mib in range(256, 3072, 16)]
    changes = [reason for i, reason in enumerate(reasons) if i == 0 or reasons[i - 1] != reason]
    assert changes == ["would_page", "would_shrink_context", "on"]


def test_the_draft_model_is_degraded_step_by_step() -> None:
    whole = next(plan for plan in map(_plan, range(1700, 1900)) if plan.chosen.draft_context_tokens == 4096)
    window = next(plan for plan in map(_plan, range(1700, 1900)) if plan.speculation)
    assert whole.chosen.draft_kv_type == "f16"
    assert window.chosen.draft_context_tokens == 1024
    assert window.chosen.draft_kv_type == "q8_0"
    assert window.needed_bytes < whole.needed_bytes
    assert "with a window of 1,024 tokens and a KV cache in q8_0" in window.explanation
    kinds = [(option.kind, option.draft_context_tokens, option.draft_kv_type) for option in window.options]
    assert kinds == [
        ("plain", 0, "f16"),
        ("ngram", 0, "f16"),
        ("draft", 4096, "f16"),
        ("draft", 1024, "f16"),
        ("draft", 1024, "q8_0"),
    ]


def test_preferring_speed_takes_context_and_says_so() -> None:
    plan = _plan(1700, replace(_POLICY, prefer="speed"))
    assert plan.speculation
    assert (plan.context_tokens, plan.given_up_context_tokens) == (3072, 1024)
    assert "takes 1,024 of 4,096 tokens of context" in plan.explanation


def test_auto_falls_back_to_ngrams_and_a_named_drafter_does_not() -> None:
    auto = _plan(1400, replace(_POLICY, fall_back=True))
    assert (auto.reason, auto.chosen.kind) == ("on", "ngram")
    assert "no room for draft.gguf" in auto.explanation
    named = _plan(1400)
    assert (named.reason, named.chosen.kind) == ("would_page", "plain")


def test_ngrams_alone_cost_little() -> None:
    plan = _plan(1400, replace(_POLICY, ngram=True), draft=None)
    assert (plan.reason, plan.chosen.kind) == ("on", "ngram")
    assert 0 < plan.needed_bytes - plan.options[0].price.needed_bytes < 8 * MIB


def test_a_corpus_is_paid_for_where_ngrams_draft() -> None:
    policy = replace(_POLICY, ngram=True, corpus_bytes=32 * MIB)
    plain, ngram, *drafts = _plan(3000, policy).options
    assert plain.price.corpus_bytes == 0
    assert {option.price.corpus_bytes for option in (ngram, *drafts)} == {32 * MIB}
    assert ngram.price.needed_bytes == _plan(3000).options[1].price.needed_bytes + 32 * MIB
    alone = _plan(3000, replace(policy, ngram=False)).options[2:]
    assert {option.price.corpus_bytes for option in alone} == {0}


def test_a_corpus_without_room_is_told() -> None:
    needed_mib = _plan(3000).options[0].price.needed_bytes // MIB
    plan = _plan(needed_mib + 20, replace(_POLICY, ngram=True, corpus_bytes=32 * MIB), draft=None)
    assert (plan.reason, plan.advice) == ("would_page", ("Leave out --corpus.",))
    assert "n-gram drafter needs 34.1 MB more" in plan.explanation


def test_the_largest_context_leaves_room_for_a_corpus() -> None:
    policy = replace(_POLICY, context_tokens="max", ngram=True, corpus_bytes=32 * MIB)
    plan = _plan(2000, policy, draft=None)
    assert plan.speculation
    assert plan.context_tokens == 14_336 - 512


def test_no_drafter_wanted() -> None:
    assert _plan(3000, draft=None).reason == "off_by_user"


def test_the_largest_context() -> None:
    policy = replace(_POLICY, context_tokens="max")
    plan = _plan(2000, policy)
    assert plan.context_tokens == 14_336
    assert plan.reason == "would_shrink_context"
    assert _plan(8000, policy).context_tokens == 32_768
    assert _plan(8000, policy).speculation
    faster = _plan(2000, replace(policy, prefer="speed"))
    assert (faster.speculation, faster.context_tokens, faster.given_up_context_tokens) == (True, 6912, 7424)
    assert _plan(100, policy).verdict == "cannot_run"


def test_advice_for_a_target_that_does_not_fit() -> None:
    assert _plan(1300).advice == ("Pass --context-tokens 3072.", "Pass --kv q8_0.")
    assert _plan(100).advice == ("Choose a smaller model or a smaller quantization.",)
    copied = replace(_TARGET, copied_bytes=500 * MIB)
    load = LoadOptions(cpu_features=frozenset({"avx2"}), mmap=True)
    plan = make_plan(copied, None, 1000 * MIB, replace(_POLICY, context_tokens=1024, load=load))
    assert plan.advice == ("Choose a smaller model or a smaller quantization.",)


def test_a_draft_model_gets_no_more_context_than_it_was_trained_on() -> None:
    plan = _plan(4000, draft=replace(_DRAFT, training_context_tokens=2048))
    assert (plan.chosen.kind, plan.chosen.draft_context_tokens) == ("draft", 2048)


def test_repacked_originals_are_seen_after_loading_but_not_needed() -> None:
    facts = replace(_TARGET, copied_bytes=400 * MIB)
    price = model_price(facts, 256, "f16", LoadOptions(cpu_features=frozenset({"avx2"})))
    assert (price.weights_bytes, price.repacked_bytes, price.idle_bytes) == (600 * MIB, 400 * MIB, 400 * MIB)
    assert price.resident_bytes == price.needed_bytes + 400 * MIB
    unmapped = model_price(facts, 256, "f16", LoadOptions(cpu_features=frozenset({"avx2"}), mmap=False))
    assert (unmapped.weights_bytes, unmapped.read_weights_bytes, unmapped.idle_bytes) == (0, 600 * MIB, 0)
    assert unmapped.anon_bytes == price.anon_bytes + 600 * MIB


def test_the_search_for_a_context() -> None:
    assert largest_context(lambda tokens: tokens <= 5000, 1024, 32_768) == 4864
    assert largest_context(lambda tokens: True, 1024, 5000) == 5000
    assert largest_context(lambda tokens: True, 1024, 500) is None
    assert largest_context(lambda tokens: tokens <= 1000, 1024, 32_768) is None
    assert largest_context(lambda tokens: tokens <= 300, 200, 300) == 300


def test_planning_imports_neither_numpy_nor_llama_cpp() -> None:
    script = (
        "import sys; import homespec.planner.plan, homespec.catalog.facts, homespec.telemetry.machine, "
        "homespec.runtime.residency, homespec.runtime.threads; "
        "assert not {'numpy', 'llama_cpp', 'gguf'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_only_verifying_takes_more_than_a_row_of_logits() -> None:
    def prices(num_rows: int) -> list[int]:
        load = replace(_POLICY.load, num_rows=num_rows)
        plan = _plan(3000, replace(_POLICY, ngram=True, load=load))
        return [option.price.needed_bytes for option in plan.options]

    one, many = prices(1), prices(64)
    added = [wide - narrow for wide, narrow in zip(many, one, strict=True)]
    assert added[0] == 0  # without drafts
    # The rows within the graph and those that are handed out; while the machine is measured, a copy of
    # them in place of the sampler's of one row. The draft model's stay what they were.
    row_bytes = 4 * _TARGET.vocab_size
    assert set(added[1:]) == {(63 + 63 + 64 - 6) * row_bytes}


def test_the_planner_counts_with_the_batches_of_a_measurement() -> None:
    from homespec.calibration.measure import _CHUNK_TOKENS, QUICK, THOROUGH

    assert max(_CHUNK_TOKENS, *QUICK.widths, *THOROUGH.widths) == MEASURING_BATCH_TOKENS


def test_the_process_itself_is_priced() -> None:
    assert _plan(3000).chosen.price.process_bytes == PROCESS_ANON_BYTES
