"""Compares the plan with reality once, and remembers the difference for the next plan."""

from __future__ import annotations

import logging

from homespec.engine.preparing import Preparation
from homespec.runtime.context import PROBE_TOKENS
from homespec.telemetry.corrections import store_correction
from homespec.telemetry.process import ProcessMemory
from homespec.units import format_bytes

_logger = logging.getLogger(__name__)

_SHARE_TO_TELL = 0.1
# Below this a difference is granularity of allocators and short-lived objects, and not worth remembering.
_SHARE_TO_KEEP, _BYTES_TO_KEEP = 0.03, 16 << 20


def compare_with_plan(preparation: Preparation, before: ProcessMemory, after: ProcessMemory) -> None:
    """Learns from the memory that the models really took.

    Args:
        preparation: what was planned and opened.
        before: of this process, just before the models were opened.
        after: just after, when each has decoded the few tokens of `LlamaContext.can_truncate`. Compute
            buffers are planned for full batches; of those only what a batch needs is touched.
    """
    if not preparation.option.fits:
        return  # What was paged out is missing from the figures.
    price = preparation.option_with_batch(PROBE_TOKENS).price
    # Homespec itself was there before, its index of the history grows with the conversation, and that of a
    # corpus is yet to come.
    expected = price.anon_bytes - price.process_bytes - price.drafter_bytes - price.corpus_bytes
    missed_bytes = after.rss_anon_bytes - before.rss_anon_bytes - expected
    total = preparation.option.price.needed_bytes
    if abs(missed_bytes) > _SHARE_TO_TELL * total:
        _logger.warning(
            "The models took %s %s than planned (%s); the next plan will count on it.",
            format_bytes(abs(missed_bytes)),
            "more" if missed_bytes > 0 else "less",
            format_bytes(total),
        )
    if preparation.option.kind != "draft" and abs(missed_bytes) > max(_BYTES_TO_KEEP, _SHARE_TO_KEEP * total):
        # With two models open nobody can tell whose the difference is.
        facts = preparation.target.facts
        store_correction(facts.correction_key, facts.correction_bytes + missed_bytes)
