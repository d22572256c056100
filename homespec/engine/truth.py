"""Compares the plan with reality once, and remembers the difference for the next plan."""

from __future__ import annotations

import logging

from homespec.engine.preparing import Preparation
from homespec.telemetry.corrections import store_correction
from homespec.telemetry.process import ProcessMemory
from homespec.units import format_bytes

_logger = logging.getLogger(__name__)

_MISS_TO_TELL = 0.1
# Below this a difference is the allocator's granularity, and not worth remembering.
_MISS_TO_KEEP_BYTES = 4 << 20


def compare_with_plan(
    preparation: Preparation, before: ProcessMemory, after: ProcessMemory, largest_batch_tokens: int
) -> None:
    """Learns from the memory that the models really took.

    Args:
        preparation: what was planned and opened.
        before: of this process, before anything was opened.
        after: after the first reply, when every buffer has been touched.
        largest_batch_tokens: the most tokens that one decode of that reply had. Compute buffers are planned
            for full batches; of those only what a batch needs is ever touched.
    """
    if not preparation.option.fits:
        return  # What was paged out is missing from the figures.
    price = preparation.option_with_batch(largest_batch_tokens).price
    # Homespec itself was there before, and its n-gram index grows with the conversation.
    expected = price.anon_bytes - price.process_bytes - price.drafter_bytes
    missed_bytes = after.rss_anon_bytes - before.rss_anon_bytes - expected
    total = preparation.option.price.needed_bytes
    if abs(missed_bytes) > _MISS_TO_TELL * total:
        _logger.warning(
            "The models took %s %s than planned (%s); the next plan will count on it.",
            format_bytes(abs(missed_bytes)),
            "more" if missed_bytes > 0 else "less",
            format_bytes(total),
        )
    if preparation.option.kind != "draft" and abs(missed_bytes) >= _MISS_TO_KEEP_BYTES:
        # With two models open nobody can tell whose the difference is.
        facts = preparation.target.facts
        store_correction(facts.correction_key, facts.correction_bytes + missed_bytes)
