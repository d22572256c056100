"""Records of a bench with figures made up at will."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from homespec.benchmark.records import (
    Conditions,
    DifferenceRecord,
    Machine,
    ModelFile,
    Record,
    Recorder,
    RunRecord,
    SessionRecord,
    TargetRecord,
)

TARGET = "small"

SESSION = SessionRecord(
    version="0.1.0",
    commit="c0ffee",
    started_at="2026-01-01T00:00:00+00:00",
    machine=Machine("Some CPU", 4, 8_000_000_000, "6.1", "performance"),
    build="llama-cpp-python 0.0, GCC 12",
    load=(0.1, 0.1, 0.1),
    models=(ModelFile(TARGET, "target", "small.gguf", "Q4_0", 100, "5a"),),
    settings=Conditions(16, 0.0, 1, 2, 4096, 2, 2, cold=False),
    arms=("plain", "ngram 5", "auto"),
)

TARGET_RECORD = TargetRecord(
    target=TARGET,
    draft=None,
    plan={"speculation": True, "reason": "on"},
    curve=None,
    draft_seconds_per_token=None,
    planned_bytes=200_000_000,
)

RUN = RunRecord(
    target=TARGET,
    scenario="code",
    prompt=0,
    repetition=0,
    arm="plain",
    order=0,
    warm_up=False,
    tokens=16,
    prompt_tokens=20,
    seconds=4.0,
    ttft_seconds=1.0,
    decode_tokens=15,
    decode_seconds=3.0,
    prefill_seconds=0.8,
    draft_seconds=0.2,
    verify_seconds=2.6,
    sample_seconds=0.2,
    other_seconds=0.2,
    open_seconds=0.0,
    num_drafts=2,
    num_draft_tokens=6,
    num_accepted_tokens=4,
    accepted_per_position=(2, 1, 1),
    drafted_per_position=(2, 2, 2),
    width_counts={1: 9, 4: 2},
    rss_anon_bytes=90_000_000,
    rss_file_bytes=120_000_000,
    peak_rss_bytes=210_000_000,
    major_faults=0,
    temperature_celsius=61.5,
    throttled=False,
    energy_joules=8.0,
    load=0.5,
    finish_reason="length",
    text_sha256="aa",
    reason="on",
    explanation="There is room.",
    predicted_tokens_per_second=None,
    text_kind=None,
    resident_share=1.0,
)


def runs(arm: str, seconds: Sequence[float], scenario: str = "code") -> list[RunRecord]:
    """A reply to each of several prompts."""
    return [
        replace(RUN, arm=arm, scenario=scenario, prompt=prompt, seconds=time)
        for prompt, time in enumerate(seconds)
    ]


def difference(arm: str, gap: float) -> DifferenceRecord:
    """In the first prompt's text."""
    return DifferenceRecord(TARGET, "code", 0, 0, arm, 3, gap, near_tie=gap < 0.5)


def write(path: Path, *records: Record, session: SessionRecord = SESSION) -> Path:
    """A file of results."""
    with Recorder(path) as recorder:
        for record in (session, TARGET_RECORD, *records):
            recorder.write(record)
    return path
