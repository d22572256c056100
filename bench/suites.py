"""Plain against speculative decoding over suites of prompts, interleaved in one process.

    .venv/bin/python bench/suites.py --model TARGET [--draft DRAFT] [--num-prompts 8] [--max-tokens 192]
        [--temperature 0] [--fresh] [--jsonl FILE] SUITE.jsonl ...

A suite has one {"prompt": ...} a line. Each prompt is answered by both arms, in the order A B, then B A, and
no prompt twice by the same arm. Speed counts whole replies, prompt, drafting and everything; decode only is
what comes after each reply's first step. Behind a ratio stands the interval of 90% that other prompts would
have given (paired bootstrap). --jsonl adds a line per reply and one per suite to a file; --fresh leaves out
what earlier runs learned about the drafters.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench import figures
from bench.figures import Run
from homespec.benchmark import statistics
from homespec.benchmark.state import experience
from homespec.benchmark.statistics import Ratio
from homespec.engine.engine import Engine
from homespec.engine.settings import EngineSettings
from homespec.records import Message

_PARTS = ("prefill", "draft", "verify", "sample")


class Ratios(NamedTuple):
    """Of one suite, or over several: whole replies, and what came after their first steps."""

    whole: Ratio
    decode: Ratio


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
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--jsonl", type=Path)
    options = parser.parse_args()

    drafted = EngineSettings(options.model, options.draft, draft_length=options.draft_length)
    generator = np.random.default_rng(statistics.SEED)
    all_ratios: list[Ratios] = []
    with (
        experience(fresh=options.fresh),
        Engine(options.model, draft="off") as plain,
        Engine(drafted) as speculative,
    ):
        sys.stdout.write(f"{speculative.preparation.explanation}\n")
        for suite in options.suites:
            before, after = run_suite(suite, plain, speculative, options)
            ratios = Ratios(
                statistics.compare(figures.amounts(after), figures.amounts(before), generator),
                statistics.compare(
                    figures.amounts(after, "decode"), figures.amounts(before, "decode"), generator
                ),
            )
            all_ratios.append(ratios)
            sys.stdout.write(describe(ratios, before, after))
            sys.stdout.flush()
            summary = {"model": options.model, "draft": options.draft, **summarize(ratios, before, after)}
            figures.append_records(options.jsonl, [*before, *after], summary)
    whole, decode = map(statistics.geometric_mean, zip(*all_ratios, strict=True))
    sys.stdout.write(f"geometric mean of the ratios {whole}, decode only {decode}\n")


def run_suite(
    suite: Path, plain: Engine, speculative: Engine, options: argparse.Namespace
) -> tuple[list[Run], list[Run]]:
    """The plain and the speculative replies to a suite."""
    arms = {"plain": plain, "speculative": speculative}
    runs: dict[str, list[Run]] = {name: [] for name in arms}
    for number, prompt in enumerate(figures.read_prompts(suite, options.num_prompts)):
        tokens = plain.chat_tokens([Message("user", prompt)])
        params = figures.request(number, options.temperature, options.max_tokens)
        for name in sorted(arms, reverse=bool(number % 2)):
            runs[name].append(figures.answer(arms[name], tokens, params, (suite.stem, number, name)))
    return runs["plain"], runs["speculative"]


def describe(ratios: Ratios, before: Sequence[Run], after: Sequence[Run]) -> str:
    """The lines of a suite."""
    speeds = [statistics.speed(figures.amounts(runs)) for runs in (before, after)]
    drafts = count_drafters(after)
    lengths = count_lengths(after)
    return (
        f"\n{after[0].suite}, {len(after)} prompts\n"
        f"  ratio {ratios.whole}, decode only {ratios.decode};"
        f" {speeds[0]:.2f} -> {speeds[1]:.2f} tokens/s\n"
        f"  mean acceptance length {mean_acceptance_length(after):.2f};"
        f" drafts: {' '.join(f'{name} {count}' for name, count in drafts.items()) or 'none'}\n"
        f"  draft lengths {percentages(lengths.items())}\n"
        f"  time, plain       {percentages(time_shares(before).items())}\n"
        f"  time, speculative {percentages(time_shares(after).items())}\n"
        f"  same text {num_equal_texts(before, after)} of {len(after)}\n"
        f"  {foretold(after)}\n"
    )


def foretold(runs: Sequence[Run]) -> str:
    """What the plans foretold beside what was measured."""
    predicted = figures.predicted_speed(runs)
    if predicted is None:
        return "no speed was foretold"
    measured = statistics.speed(figures.amounts(runs, "written"))
    return f"foretold {predicted:.2f} tokens/s, measured {measured:.2f} ({predicted / measured - 1:+.0%})"


def summarize(ratios: Ratios, before: Sequence[Run], after: Sequence[Run]) -> dict[str, object]:
    """The same for --jsonl."""
    return {
        "suite": after[0].suite,
        "num_prompts": len(after),
        "ratio": ratios.whole.value,
        "ratio_interval": ratios.whole.interval(),
        "decode_ratio": ratios.decode.value,
        "decode_ratio_interval": ratios.decode.interval(),
        "mean_acceptance_length": mean_acceptance_length(after),
        "draft_lengths": count_lengths(after),
        "drafts": count_drafters(after),
        "time_shares": {"plain": time_shares(before), "speculative": time_shares(after)},
        "num_equal_texts": num_equal_texts(before, after),
        "predicted_tokens_per_second": figures.predicted_speed(after),
    }


def mean_acceptance_length(runs: Sequence[Run]) -> float:
    """Tokens per step that had a draft."""
    num_drafts = sum(drafted > 0 for run in runs for drafted in run.drafted)
    return 1 + sum(sum(run.accepted) for run in runs) / max(1, num_drafts)


def count_lengths(runs: Sequence[Run]) -> dict[int, int]:
    """Draft length -> decodes, 0 for plain ones; reading the prompt, which gave the first token, is none."""
    return dict(sorted(Counter(width - 1 for run in runs for width in run.widths if width).items()))


def count_drafters(runs: Sequence[Run]) -> dict[str, int]:
    """Drafter -> drafts, the busiest first."""
    names = Counter(
        name for run in runs for name, width in zip(run.drafters, run.widths, strict=True) if width > 1
    )
    return dict(names.most_common())


def time_shares(runs: Sequence[Run]) -> dict[str, float]:
    """Part -> its share of the seconds; `other` is what belongs to none."""
    seconds = sum(run.seconds for run in runs)
    shares = {part: sum(getattr(run, f"{part}_seconds") for run in runs) / seconds for part in _PARTS}
    return {**shares, "other": 1 - sum(shares.values())}


def num_equal_texts(before: Sequence[Run], after: Sequence[Run]) -> int:
    """Prompts with the same tokens by both arms; only greedy replies can be expected to be equal."""
    return sum(one.token_ids == other.token_ids for one, other in zip(before, after, strict=True))


def percentages(weights: Iterable[tuple[object, float]]) -> str:
    """Each as a part of all."""
    pairs = list(weights)
    total = sum(weight for _, weight in pairs)
    return "  ".join(f"{name}: {weight / total:.1%}" for name, weight in pairs)


if __name__ == "__main__":
    main()
