"""What the benchmarks that answer prompts share: runs of suites, and their records."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from homespec.benchmark import scenarios
from homespec.benchmark.statistics import Amounts
from homespec.engine.engine import Engine
from homespec.engine.settings import FixedDraft
from homespec.records import RequestParams, SamplingParams

Part = Literal["whole", "written", "decode"]


@dataclass(frozen=True, slots=True)
class Run:
    """One reply of one arm to one prompt.

    Attributes:
        suite, number: which prompt; numbers begin with 0.
        arm: who answered.
        tokens, seconds: of the whole reply: prompt, drafting, everything.
        decode_tokens, decode_seconds: after the first step.
        prefill_seconds, draft_seconds, verify_seconds, sample_seconds: parts of `seconds`.
        text_kind: what the controller took the text for; None without one.
        finish_reason: why the reply ended.
        token_ids: of the reply.
        widths, drafted, accepted, drafters: of each step: the width of the decode, draft tokens that were
            judged and accepted, who drafted.
        predicted_tokens_per_second: what the reply's plan foretold; None without a controller.
    """

    suite: str
    number: int
    arm: str
    tokens: int
    seconds: float
    decode_tokens: int
    decode_seconds: float
    prefill_seconds: float
    draft_seconds: float
    verify_seconds: float
    sample_seconds: float
    text_kind: str | None
    finish_reason: str
    token_ids: tuple[int, ...]
    widths: tuple[int, ...]
    drafted: tuple[int, ...]
    accepted: tuple[int, ...]
    drafters: tuple[str, ...]
    predicted_tokens_per_second: float | None = None


def read_prompts(suite: Path, num_prompts: int) -> list[str]:
    """The first prompts of a suite.

    Raises:
        ConfigError: there are none.
    """
    return list(scenarios.read_prompts(suite).prompts[:num_prompts])


def request(number: int, temperature: float, max_tokens: int) -> RequestParams:
    """The request for a suite's prompt of this number."""
    sampling = SamplingParams(temperature=temperature, top_k=0, top_p=1.0, min_p=0.0, seed=number)
    return RequestParams(sampling, max_tokens=max_tokens)


def answer(
    engine: Engine,
    tokens: list[int],
    params: RequestParams,
    place: tuple[str, int, str],
    fixed: FixedDraft | None = None,
) -> Run:
    """Generates a whole reply; ends the program if the drafter was dropped on the way.

    Args:
        engine: what answers.
        tokens: the prompt.
        params: of the request.
        place: suite, number and arm.
        fixed: how to draft; None for the engine's own choice.
    """
    start = time.perf_counter()
    generation = engine.generate(tokens, params, fixed)
    for _ in generation:
        pass
    seconds = time.perf_counter() - start
    reply, steps = generation.reply, generation.steps
    if reply.plan.reason in ("would_page", "drafter_failed", "cannot_roll_back"):
        sys.exit(f"The drafter was dropped, so there is nothing to compare: {reply.plan.explanation}")
    stats = reply.stats
    return Run(
        *place,
        tokens=stats.completion_tokens,
        seconds=seconds,
        decode_tokens=sum(len(step.tokens) for step in steps[1:]),
        decode_seconds=stats.decode_seconds,
        prefill_seconds=stats.prefill_seconds,
        draft_seconds=stats.draft_seconds,
        verify_seconds=stats.verify_seconds,
        sample_seconds=stats.sample_seconds,
        text_kind=stats.text_kind,
        finish_reason=reply.finish_reason,
        token_ids=reply.token_ids,
        widths=tuple(step.width for step in steps),
        drafted=tuple(step.num_draft_tokens for step in steps),
        accepted=tuple(step.num_accepted_tokens for step in steps),
        drafters=tuple(step.drafter for step in steps),
        predicted_tokens_per_second=reply.plan.predicted_tokens_per_second,
    )


def amounts(runs: Sequence[Run], part: Part = "whole") -> Amounts:
    """Tokens and seconds of whole replies, of them once the prompt was read, or behind their first steps."""
    if part == "decode":
        return np.array([(run.decode_tokens, run.decode_seconds) for run in runs], dtype=float)
    prompt = part == "written"
    return np.array([(run.tokens, run.seconds - prompt * run.prefill_seconds) for run in runs], dtype=float)


def predicted_speed(runs: Sequence[Run]) -> float | None:
    """Tokens per second once the prompt is read, as the plans foretold them; None where one did not."""
    seconds = 0.0
    for run in runs:
        if not run.predicted_tokens_per_second:
            return None
        seconds += run.tokens / run.predicted_tokens_per_second
    return sum(run.tokens for run in runs) / seconds


def append_records(path: Path | None, runs: Sequence[Run], summary: dict[str, object]) -> None:
    """Keeps a suite's runs and its summary as lines of JSON; the field `record` tells them apart."""
    if path is None:
        return
    records = [*({"record": "run", **asdict(run)} for run in runs), {"record": "suite", **summary}]
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
