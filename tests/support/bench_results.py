"""Results of a bench that never ran, line by line as `homespec bench --out` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]

CURVE = {
    "widths": [1, 2, 3, 4, 6, 8],
    "depths_tokens": [0, 1024],
    "shallow_seconds": [0.040, 0.044, 0.050, 0.058, 0.080, 0.110],
    "deep_seconds": [0.050, 0.055, 0.062, 0.071, 0.095, 0.128],
}


def session(arms: Iterable[str] = ("plain", "ngram 5", "auto"), **changes: Any) -> Record:
    """The first line."""
    return {
        "record": "session",
        "version": "0.1.0",
        "commit": "0123abcd" * 5,
        "started_at": "2026-01-02T03:04:05+00:00",
        "machine": {
            "cpu": "Example CPU 9000",
            "num_cpus": 4,
            "memory_bytes": 16_000_000_000,
            "kernel": "6.1.0",
            "governor": None,
        },
        "build": "llama-cpp-python 0.3.36, clang 19, AVX2 FMA",
        "load": [0.1, 0.2, 0.3],
        "models": [
            {
                "name": "tiny",
                "role": "target",
                "file": "tiny.gguf",
                "quantization": "Q4_K_M",
                "size_bytes": 1_117_320_768,
                "sha256": "ab" * 32,
            }
        ],
        "settings": {
            "max_tokens": 128,
            "temperature": 0.0,
            "repetitions": 2,
            "num_prompts": 8,
            "context_tokens": 4096,
            "threads": 4,
            "batch_threads": 4,
            "cold": False,
        },
        "arms": list(arms),
    } | changes


def target(name: str = "tiny", **changes: Any) -> Record:
    """A target's line."""
    return {
        "record": "target",
        "target": name,
        "draft": None,
        "plan": {
            "speculation": True,
            "reason": "on",
            "explanation": "n-gram lookup drafts up to 63 tokens.",
            "context_tokens": 4096,
            "draft_length": 63,
            "needed_bytes": 1_300_000_000,
            "headroom_bytes": 12_000_000_000,
        },
        "curve": CURVE,
        "draft_seconds_per_token": None,
        "planned_bytes": 1_400_000_000,
    } | changes


def run(arm: str, scenario: str = "code", prompt: int = 0, repetition: int = 0, **changes: Any) -> Record:
    """A reply of 100 tokens in ten seconds, of which 99 in nine."""
    drafts = arm != "plain"
    return {
        "record": "run",
        "target": "tiny",
        "scenario": scenario,
        "prompt": prompt,
        "repetition": repetition,
        "arm": arm,
        "order": 0,
        "warm_up": False,
        "tokens": 100,
        "prompt_tokens": 50,
        "seconds": 10.0,
        "ttft_seconds": 1.0,
        "decode_tokens": 99,
        "decode_seconds": 9.0,
        "prefill_seconds": 0.9,
        "draft_seconds": 0.2 if drafts else 0.0,
        "verify_seconds": 8.4,
        "sample_seconds": 0.3,
        "other_seconds": 0.2 if drafts else 0.4,
        "num_drafts": 40 if drafts else 0,
        "num_draft_tokens": 120 if drafts else 0,
        "num_accepted_tokens": 60 if drafts else 0,
        "accepted_per_position": [32, 18, 10] if drafts else [],
        "drafted_per_position": [40, 40, 40] if drafts else [],
        "width_counts": {"1": 10, "4": 30, "6": 10} if drafts else {"1": 100},
        "rss_anon_bytes": 200_000_000,
        "rss_file_bytes": 1_100_000_000,
        "peak_rss_bytes": 1_350_000_000,
        "major_faults": 0,
        "temperature_celsius": 61.0,
        "throttled": False,
        "energy_joules": 250.0,
        "load": 1.1,
        "finish_reason": "length",
        "text_sha256": f"{scenario}-{prompt}-{repetition}",
        "reason": "on" if drafts else "off_by_user",
        "explanation": "",
        "predicted_tokens_per_second": None,
        "text_kind": None,
    } | changes


def difference(arm: str, scenario: str = "code", prompt: int = 0, **changes: Any) -> Record:
    """A text that parts from the plain one at a near tie."""
    return {
        "record": "difference",
        "target": "tiny",
        "scenario": scenario,
        "prompt": prompt,
        "repetition": 0,
        "arm": arm,
        "position": 17,
        "gap": 0.0123,
        "near_tie": True,
    } | changes


def replies(speeds: dict[str, dict[str, float]], num_prompts: int = 4) -> list[Record]:
    """Two repetitions of each prompt, and a warm-up, by every arm.

    Args:
        speeds: scenario -> arm -> how many times as fast as plain it is, about: prompts differ by up to 6%.
        num_prompts: of each scenario.
    """
    records = []
    for scenario, arms in speeds.items():
        for prompt in range(num_prompts):
            for repetition in range(2):
                for arm, times in arms.items():
                    pace = times * (1 + 0.02 * prompt * (times != 1))
                    changes = {"seconds": 10 / pace, "decode_seconds": 9 / pace}
                    if prompt == repetition == 0:
                        records.append(run(arm, scenario, warm_up=True, seconds=99.0))
                    records.append(run(arm, scenario, prompt, repetition, **changes))
    return records


def usual() -> list[Record]:
    """A session in which auto gains in code, loses in chat, and changes nothing in maths."""
    speeds = {
        "code": {"plain": 1.0, "ngram 5": 1.5, "auto": 1.8},
        "chat": {"plain": 1.0, "ngram 5": 0.7, "auto": 0.9},
        "maths": {"plain": 1.0, "ngram 5": 0.8, "auto": 0.97},
    }
    return [session(), target(), *replies(speeds)]


def write(path: Path, records: Iterable[Record]) -> Path:
    """One object a line."""
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path
