"""The ways to run a target, with and without a drafter, each with its price and verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from homespec.planner.prices import (
    KvType,
    LoadOptions,
    MemoryFacts,
    MemoryPrice,
    model_price,
    ngram_price,
    process_price,
)
from homespec.planner.search import longest_sensible_context

Prefer = Literal["context", "speed"]
OptionKind = Literal["plain", "ngram", "draft"]
Verdict = Literal["fits", "would_page", "cannot_run"]

LEAST_CONTEXT_TOKENS = 1024
"""Below this neither a shrunken context nor a draft model's window is worth having."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the user asked for.

    Attributes:
        context_tokens: of the target, or `max` for the largest that fits.
        kv_type: of the target's KV cache, and the draft model's where it is not quantized further.
        ngram: draft from n-grams, before a draft model if there is one.
        corpus_bytes: of the index of texts that n-gram lookup uses beside the conversation.
        fall_back: without room for the draft model, draft from n-grams instead (`--draft auto`).
        prefer: whether a drafter may take context away.
        load: how the models are loaded.
    """

    context_tokens: int | Literal["max"]
    kv_type: KvType = "f16"
    ngram: bool = False
    corpus_bytes: int = 0
    fall_back: bool = False
    prefer: Prefer = "context"
    load: LoadOptions = field(default_factory=LoadOptions)


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run.

    Attributes:
        kind: plain decoding, the n-gram drafter alone, or a draft model.
        context_tokens: of the target.
        draft_context_tokens: of the draft model; 0 without one.
        draft_kv_type: of the draft model's KV cache.
        price: of everything, homespec itself included.
        verdict: whether it fits: `would_page` means that the mapped weights would not stay in memory and each
            token would read from disk; `cannot_run` means that not even the rest has room.
    """

    kind: OptionKind
    context_tokens: int
    draft_context_tokens: int
    draft_kv_type: KvType
    price: MemoryPrice
    verdict: Verdict

    @property
    def fits(self) -> bool:
        """Whether it runs without reading from disk."""
        return self.verdict == "fits"


@dataclass(frozen=True, slots=True)
class Pricing:
    """Prices options for one target, one draft model or none, and one machine."""

    target: MemoryFacts
    draft: MemoryFacts | None
    headroom_bytes: int
    policy: Policy

    def plain(self, context_tokens: int) -> Option:
        """The target alone."""
        return self._option("plain", context_tokens)

    def ngram(self, context_tokens: int) -> Option:
        """The target with the n-gram drafter."""
        return self._option("ngram", context_tokens)

    def draft_options(self, context_tokens: int) -> Iterator[Option]:
        """The target with the draft model, best first: whole context, shorter windows, quantized windows."""
        kv_type = self.policy.kv_type
        yield self.draft_option(context_tokens)
        windows = list(_windows(context_tokens))
        for window in windows:
            yield self.draft_option(context_tokens, window, kv_type)
        if kv_type == "f16":
            for window in windows or [context_tokens]:
                yield self.draft_option(context_tokens, window, "q8_0")

    def draft_option(
        self,
        context_tokens: int,
        draft_context_tokens: int | None = None,
        draft_kv_type: KvType | None = None,
    ) -> Option:
        """The target with the draft model; by default with the same type of KV cache and the same context.

        The draft model's context never exceeds what it was trained on.
        """
        assert self.draft is not None
        own_limit = longest_sensible_context(self.draft.training_context_tokens)
        draft_context_tokens = min(draft_context_tokens or context_tokens, own_limit)
        return self._option(
            "draft", context_tokens, draft_context_tokens, draft_kv_type or self.policy.kv_type
        )

    def repriced(self, option: Option) -> Option:
        """The same way to run at this pricing's terms."""
        return self._option(
            option.kind, option.context_tokens, option.draft_context_tokens, option.draft_kv_type
        )

    def _option(
        self,
        kind: OptionKind,
        context_tokens: int,
        draft_context_tokens: int = 0,
        draft_kv_type: KvType = "f16",
    ) -> Option:
        load = self.policy.load
        # More is never asked of a draft model, nor of a target without drafts.
        one_row = replace(load, num_rows=1)
        target_load = one_row if kind == "plain" else load
        price = process_price() + model_price(self.target, context_tokens, self.policy.kv_type, target_load)
        if kind == "ngram" or (kind == "draft" and self.policy.ngram):
            price += ngram_price(context_tokens, self.policy.corpus_bytes)
        if kind == "draft":
            assert self.draft is not None
            price += model_price(self.draft, draft_context_tokens, draft_kv_type, one_row)
        return Option(kind, context_tokens, draft_context_tokens, draft_kv_type, price, self._verdict(price))

    def _verdict(self, price: MemoryPrice) -> Verdict:
        if price.needed_bytes <= self.headroom_bytes:
            return "fits"
        return "would_page" if price.anon_bytes <= self.headroom_bytes else "cannot_run"


def _windows(context_tokens: int) -> Iterator[int]:
    """Powers of two below the context, the largest first."""
    window = 1 << max(0, context_tokens - 1).bit_length() - 1
    while window >= LEAST_CONTEXT_TOKENS:
        yield window
        window //= 2
