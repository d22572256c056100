"""Plain against speculative decoding over suites of prompts, interleaved in one process.

    .venv/bin/python bench/suites.py --model TARGET [--draft DRAFT] [--num-prompts 8] [--max-tokens 192]
        [--temperature 0] SUITE.jsonl ...

A suite has one {"prompt": ...} a line. Each prompt is answered by both arms, in the order A B, then B A, and
no prompt twice by the same arm. Speed counts whole replies: prompt, drafting, everything. Prints a line per
suite: ratio of the speeds, acceptance length, chosen widths, where the time went; --jsonl keeps the figures.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from homespec.engine.engine import Engine
from homespec.engine.settings import EngineSettings
from homespec.records import Message, Reply, RequestParams, SamplingParams, StepRecord


@dataclass
class Arm:
    """Sums over the replies of one arm in one suite."""

    tokens: int = 0
    seconds: float = 0.0
    prefill_seconds: float = 0.0
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    sample_seconds: float = 0.0
    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    widths: dict[int, int] = field(default_factory=dict)

    def add(self, reply: Reply, steps: list[StepRecord], seconds: float) -> None:
        """Takes a reply in."""
        stats = reply.stats
        self.tokens += stats.completion_tokens
        self.seconds += seconds
        self.prefill_seconds += stats.prefill_seconds
        self.draft_seconds += stats.draft_seconds
        self.verify_seconds += stats.verify_seconds
        self.sample_seconds += stats.sample_seconds
        self.num_drafts += stats.num_drafts
        self.num_draft_tokens += stats.num_draft_tokens
        self.num_accepted_tokens += stats.num_accepted_tokens
        for step in steps:
            self.widths[step.width] = self.widths.get(step.width, 0) + 1

    @property
    def tokens_per_second(self) -> float:
        """Of whole replies."""
        return self.tokens / self.seconds


def main() -> None:
    """Runs the suites."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", type=Path, nargs="+")
    parser.add_argument("--model", required=True)
    parser.add_argument("--draft", default="auto")
    parser.add_argument("--draft-length", type=int)
    parser.add_argument("--num-prompts", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=192)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--jsonl", type=Path)
    options = parser.parse_args()

    drafted = EngineSettings(options.model, options.draft, draft_length=options.draft_length)
    with Engine(options.model, draft="off") as plain, Engine(drafted) as speculative:
        sys.stdout.write(f"{speculative.preparation.explanation}\n")
        ratios = [run_suite(suite, plain, speculative, options) for suite in options.suites]
    sys.stdout.write(
        f"geometric mean of the ratios {math.exp(statistics.fmean(map(math.log, ratios))):.3f}\n"
    )


def run_suite(suite: Path, plain: Engine, speculative: Engine, options: argparse.Namespace) -> float:
    """Prints a line, and returns the ratio of speeds."""
    lines = suite.read_text(encoding="utf-8").splitlines()[: options.num_prompts]
    arms = {"plain": (plain, Arm()), "speculative": (speculative, Arm())}
    for number, line in enumerate(lines):
        tokens = plain.chat_tokens([Message("user", json.loads(line)["prompt"])])
        sampling = SamplingParams(temperature=options.temperature, top_k=0, top_p=1.0, min_p=0.0, seed=number)
        params = RequestParams(sampling, max_tokens=options.max_tokens)
        for name in sorted(arms, reverse=bool(number % 2)):
            engine, arm = arms[name]
            start = time.perf_counter()
            generation = engine.generate(tokens, params)
            for _ in generation:
                pass
            arm.add(generation.reply, generation.steps, time.perf_counter() - start)
    before, after = arms["plain"][1], arms["speculative"][1]
    ratio = after.tokens_per_second / before.tokens_per_second
    sys.stdout.write(describe(suite.stem, ratio, before, after) + "\n")
    sys.stdout.flush()
    if options.jsonl:
        with options.jsonl.open("a", encoding="utf-8") as file:
            record = {
                "suite": suite.stem,
                "ratio": ratio,
                "plain": asdict(before),
                "speculative": asdict(after),
            }
            file.write(json.dumps(record) + "\n")
    return ratio


def describe(name: str, ratio: float, before: Arm, after: Arm) -> str:
    """The line of a suite."""
    length = 1 + after.num_accepted_tokens / max(1, after.num_drafts)
    steps = sum(after.widths.values())
    widths = " ".join(f"{width}:{count / steps:.0%}" for width, count in sorted(after.widths.items()))
    parts = ("prefill", "draft", "verify", "sample")
    shares = " ".join(f"{part} {getattr(after, part + '_seconds') / after.seconds:.0%}" for part in parts)
    return (
        f"{name:10} {ratio:5.2f} {before.tokens_per_second:5.1f} -> {after.tokens_per_second:5.1f} tokens/s  "
        f"length {length:.2f}  widths {widths}  {shares}"
    )


if __name__ == "__main__":
    main()
