"""Step records -> the figures of a reply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from homespec.records import GenerationStats, StepRecord
from homespec.telemetry.process import ProcessMemory


@dataclass(frozen=True, slots=True)
class Prefill:
    """How the prompt of one request was read.

    Attributes:
        prompt_tokens: of the prompt.
        reused_tokens: of it that were in the KV cache already.
        decoded_tokens: of it that this request decoded.
        seconds: from the request to the first step.
    """

    prompt_tokens: int
    reused_tokens: int
    decoded_tokens: int
    seconds: float


def summarize(
    steps: Sequence[StepRecord],
    *,
    prefill: Prefill,
    ttft_seconds: float,
    decode_seconds: float,
    memory: ProcessMemory,
    major_faults: int,
    text_kind: str | None = None,
    speedup: float | None = None,
) -> GenerationStats:
    """Adds the steps of one reply up.

    Args:
        steps: at least none.
        prefill: how the prompt was read.
        ttft_seconds: from the request to the end of the first step.
        decode_seconds: from there to the end of the last step.
        memory: of this process, after the last step.
        major_faults: during the request.
        text_kind: what the router took the text for.
        speedup: over plain decoding, as the controller estimates it.
    """
    drafted = [step for step in steps if step.num_draft_tokens]
    num_draft_tokens = sum(step.num_draft_tokens for step in drafted)
    num_accepted_tokens = sum(step.num_accepted_tokens for step in drafted)
    # The first step belongs to the time to first token, so its tokens are not counted against the rest.
    tokens_after_first = sum(len(step.tokens) for step in steps[1:])
    return GenerationStats(
        prompt_tokens=prefill.prompt_tokens,
        reused_prompt_tokens=prefill.reused_tokens,
        prefilled_tokens=prefill.decoded_tokens,
        completion_tokens=sum(len(step.tokens) for step in steps),
        ttft_seconds=ttft_seconds,
        prefill_seconds=prefill.seconds,
        decode_seconds=decode_seconds,
        tokens_per_second=tokens_after_first / decode_seconds if tokens_after_first else None,
        num_steps=len(steps),
        num_drafts=len(drafted),
        num_draft_tokens=num_draft_tokens,
        num_accepted_tokens=num_accepted_tokens,
        acceptance_rate=num_accepted_tokens / num_draft_tokens if drafted else None,
        mean_acceptance_length=1 + num_accepted_tokens / len(drafted) if drafted else None,
        accepted_per_position=_per_position([step.num_accepted_tokens for step in drafted]),
        drafted_per_position=_per_position([step.num_draft_tokens for step in drafted]),
        draft_seconds=sum(step.draft_seconds for step in steps),
        verify_seconds=sum(step.verify_seconds for step in steps),
        sample_seconds=sum(step.sample_seconds for step in steps),
        peak_rss_bytes=memory.peak_rss_bytes,
        rss_anon_bytes=memory.rss_anon_bytes,
        rss_file_bytes=memory.rss_file_bytes,
        major_faults=major_faults,
        text_kind=text_kind,
        speedup=speedup,
        width_counts=dict(sorted(Counter(step.width for step in steps if step.width).items())),
    )


def _per_position(lengths: Sequence[int]) -> tuple[int, ...]:
    """For each position from the first: how many of the lengths reach it."""
    return tuple(map(sum, zip_longest(*([1] * length for length in lengths), fillvalue=0)))
