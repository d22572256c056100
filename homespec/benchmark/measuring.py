"""One reply, from ready models to its record."""

from __future__ import annotations

import hashlib
from time import perf_counter
from typing import NamedTuple

from homespec.benchmark.arms import Arm
from homespec.benchmark.models import Models, Ready
from homespec.benchmark.records import RunRecord
from homespec.benchmark.state import Moment
from homespec.engine.generation import Generation
from homespec.records import Reply, RequestParams
from homespec.runtime.interrupt import abort_on_interrupt
from homespec.telemetry.process import reset_peak_memory


class Place(NamedTuple):
    """Where a reply stands in a session; see `RunRecord`."""

    target: str
    scenario: str
    prompt: int
    repetition: int
    order: int
    warm_up: bool = False


class Prompt(NamedTuple):
    """A prompt, and its tokens in a conversation of its own."""

    text: str
    tokens: list[int]


def measure(
    models: Models, arm: Arm, prompt: Prompt, params: RequestParams, place: Place
) -> tuple[Reply, RunRecord]:
    """Answers a prompt once.

    Args:
        models: made ready for the reply.
        arm: who drafts.
        prompt: to answer.
        params: of the request.
        place: of the reply in the session.

    Raises:
        KeyboardInterrupt: the user stopped it.
    """
    with models.ready(arm) as ready:
        reset_peak_memory()
        before = Moment.now()
        with abort_on_interrupt(ready.engine.abort):
            start = perf_counter()
            generation = ready.engine.generate(prompt.tokens, params, arm.fixed)
            for _ in generation:
                pass
            seconds = perf_counter() - start
        after = Moment.now()
        reply = generation.reply
    if ready.engine.abort.is_set or reply.finish_reason == "interrupted":
        raise KeyboardInterrupt
    return reply, _describe(generation, reply, (arm, place), ready, seconds, (before, after))


def _describe(
    generation: Generation,
    reply: Reply,
    question: tuple[Arm, Place],
    ready: Ready,
    seconds: float,
    moments: tuple[Moment, Moment],
) -> RunRecord:
    stats, (arm, place), (before, after) = reply.stats, question, moments
    parts = stats.prefill_seconds + stats.draft_seconds + stats.verify_seconds + stats.sample_seconds
    return RunRecord(
        target=place.target,
        scenario=place.scenario,
        prompt=place.prompt,
        repetition=place.repetition,
        arm=arm.name,
        order=place.order,
        warm_up=place.warm_up,
        tokens=stats.completion_tokens,
        prompt_tokens=stats.prompt_tokens,
        seconds=ready.open_seconds + seconds,
        ttft_seconds=ready.open_seconds + stats.ttft_seconds,
        decode_tokens=sum(len(step.tokens) for step in generation.steps[1:]),
        decode_seconds=stats.decode_seconds,
        prefill_seconds=stats.prefill_seconds,
        draft_seconds=stats.draft_seconds,
        verify_seconds=stats.verify_seconds,
        sample_seconds=stats.sample_seconds,
        # Clocks of different parts; none can be owed time.
        other_seconds=ready.open_seconds + max(0.0, seconds - parts),
        open_seconds=ready.open_seconds,
        num_drafts=stats.num_drafts,
        num_draft_tokens=stats.num_draft_tokens,
        num_accepted_tokens=stats.num_accepted_tokens,
        accepted_per_position=stats.accepted_per_position,
        drafted_per_position=stats.drafted_per_position,
        width_counts=stats.width_counts,
        rss_anon_bytes=stats.rss_anon_bytes,
        rss_file_bytes=stats.rss_file_bytes,
        peak_rss_bytes=stats.peak_rss_bytes,
        major_faults=stats.major_faults,
        temperature_celsius=after.temperature_celsius,
        throttled=before.throttled_until(after),
        energy_joules=before.joules_until(after),
        load=before.load,
        finish_reason=reply.finish_reason,
        text_sha256=_hash(reply.text),
        reason=reply.plan.reason,
        explanation=reply.plan.explanation,
        predicted_tokens_per_second=reply.plan.predicted_tokens_per_second,
        text_kind=stats.text_kind,
        resident_share=ready.resident_share,
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
