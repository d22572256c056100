"""The controller against every fixed setting: which drafter at which draft length would have been the best?

    .venv/bin/python bench/sweep.py --model TARGET [--draft DRAFT] [--lengths 1 2 3 4 5 6 7 8]
        [--num-prompts 3] [--max-tokens 96] [--min-confidence 0] [--fresh] [--jsonl FILE] SUITE.jsonl ...

Each prompt is answered plainly, by n-gram lookup, by the draft model and by one after the other at every
draft length, and by the controller. That learns from its own replies alone, and from earlier runs unless
--fresh is given. All share one opened target, in another order for each prompt. The target reads the prompt
once, and each reply is charged for that; the draft model reads it anew for each.

The best of many noisy settings looks better than it is. So beside the best setting of a suite stands an
honest one: for each prompt the setting that was best on the other prompts. Plain decoding is a setting, too.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench import figures
from bench.figures import Run
from homespec.benchmark import statistics
from homespec.benchmark.arms import AUTO, PLAIN, Arm, make_arms
from homespec.benchmark.state import experience
from homespec.benchmark.statistics import Amounts, Ratio
from homespec.engine.engine import Engine
from homespec.engine.settings import AUTO_DRAFT_LENGTH, EngineSettings
from homespec.records import Message


class Outcome(NamedTuple):
    """What a suite shows.

    Attributes:
        settings: name -> ratio to plain, of every fixed setting; plain itself is one.
        best: name of the best.
        honest: ratio to plain of choosing on the other prompts; None with a single prompt.
        auto: the controller's ratio to plain.
        auto_to_best, auto_to_honest: the controller against both.
    """

    settings: dict[str, Ratio]
    best: str
    honest: Ratio | None
    auto: Ratio
    auto_to_best: Ratio
    auto_to_honest: Ratio | None


def main() -> None:
    """Runs the suites."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", type=Path, nargs="+")
    parser.add_argument("--model", required=True)
    parser.add_argument("--draft", help="a draft model; without one only n-grams draft")
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=range(1, 9), choices=range(1, AUTO_DRAFT_LENGTH + 1)
    )
    parser.add_argument("--min-confidence", type=float, default=0.0)
    parser.add_argument("--num-prompts", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--jsonl", type=Path)
    options = parser.parse_args()

    settings = EngineSettings(options.model, f"ngram+{options.draft}" if options.draft else "ngram")
    generator = np.random.default_rng(statistics.SEED)
    outcomes: list[Outcome] = []
    with experience(fresh=options.fresh), Engine(settings) as engine:
        if not engine.plan.speculation:
            sys.exit(f"Nothing to compare: {engine.plan.explanation}")
        for suite in options.suites:
            runs = run_suite(suite, engine, options)
            outcome = judge(runs, generator)
            outcomes.append(outcome)
            sys.stdout.write(describe(suite.stem, runs, outcome, options.lengths))
            sys.stdout.flush()
            summary = {"suite": suite.stem, "model": options.model, "draft": options.draft}
            every_run = [run for arm_runs in runs.values() for run in arm_runs]
            figures.append_records(options.jsonl, every_run, summary | summarize(outcome))
    sys.stdout.write(describe_all(outcomes))


def choose_arms(options: argparse.Namespace) -> list[Arm]:
    """Every arm once."""
    arms = make_arms((), options.lengths, has_draft_model=options.draft is not None)
    return [
        replace(arm, fixed=replace(arm.fixed, min_confidence=options.min_confidence)) if arm.fixed else arm
        for arm in arms
    ]


def run_suite(suite: Path, engine: Engine, options: argparse.Namespace) -> dict[str, list[Run]]:
    """The replies by arm, in the order of the prompts."""
    arms = choose_arms(options)
    runs: dict[str, list[Run]] = {arm.name: [] for arm in arms}
    shuffler = random.Random(statistics.SEED)
    for number, prompt in enumerate(figures.read_prompts(suite, options.num_prompts)):
        tokens = engine.chat_tokens([Message("user", prompt)])
        params = figures.request(number, options.temperature, options.max_tokens)
        engine.forget()
        once = replace(params, max_tokens=1)
        reading = figures.answer(engine, tokens, once, (suite.stem, number, "read"), PLAIN.fixed)
        for arm in shuffler.sample(arms, len(arms)):
            engine.forget(keep_prompt=True)
            run = figures.answer(engine, tokens, params, (suite.stem, number, arm.name), arm.fixed)
            # The prompt is in the target's cache; what reading it took is the same for all.
            prefill_seconds = run.prefill_seconds + reading.prefill_seconds
            seconds = run.seconds + reading.prefill_seconds
            runs[arm.name].append(replace(run, prefill_seconds=prefill_seconds, seconds=seconds))
    return runs


def judge(runs: Mapping[str, Sequence[Run]], generator: np.random.Generator) -> Outcome:
    """Compares the controller with the fixed settings."""
    all_amounts = {name: figures.amounts(arm_runs) for name, arm_runs in runs.items()}
    auto, plain = all_amounts.pop(AUTO.name), all_amounts[PLAIN.name]
    best = fastest(all_amounts)
    honest = choose_on_others(all_amounts)
    return Outcome(
        settings={name: statistics.compare(pairs, plain, generator) for name, pairs in all_amounts.items()},
        best=best,
        honest=None if honest is None else statistics.compare(honest, plain, generator),
        auto=statistics.compare(auto, plain, generator),
        auto_to_best=statistics.compare(auto, all_amounts[best], generator),
        auto_to_honest=None if honest is None else statistics.compare(auto, honest, generator),
    )


def fastest(settings: Mapping[str, Amounts]) -> str:
    """The setting with the most tokens per second over all prompts."""
    return max(settings, key=lambda name: statistics.speed(settings[name]))


def choose_on_others(settings: Mapping[str, Amounts]) -> Amounts | None:
    """For each prompt the tokens and seconds of the setting that was the fastest on the other prompts.

    Returns:
        Shape (num_prompts, 2); None if there are no other prompts.
    """
    num_prompts = len(next(iter(settings.values())))
    if num_prompts < 2:
        return None
    rows = []
    for number in range(num_prompts):
        others = {name: np.delete(pairs, number, axis=0) for name, pairs in settings.items()}
        rows.append(settings[fastest(others)][number])
    return np.stack(rows)


def describe(suite: str, runs: Mapping[str, Sequence[Run]], outcome: Outcome, lengths: Sequence[int]) -> str:
    """The lines of a suite."""
    plain = runs[PLAIN.name]
    drafters = dict.fromkeys(name.partition(" ")[0] for name in outcome.settings if name != PLAIN.name)
    rows = [
        f"  {drafter:24}"
        + " ".join(f"{outcome.settings[f'{drafter} {length}'].value:6.3f}" for length in lengths)
        for drafter in drafters
    ]
    return "\n".join(
        [
            f"\n{suite}, {len(plain)} prompts, plain {statistics.speed(figures.amounts(plain)):.2f} tokens/s",
            f"  {'ratio to plain, length':24}" + " ".join(f"{length:6}" for length in lengths),
            *rows,
            f"  best fixed setting      {outcome.best}: {outcome.settings[outcome.best]}",
            f"  chosen on other prompts {outcome.honest or 'needs two prompts'}",
            f"  auto                    {outcome.auto}",
            f"  auto / best fixed       {outcome.auto_to_best}",
            f"  auto / chosen on others {outcome.auto_to_honest or 'needs two prompts'}\n",
        ]
    )


def summarize(outcome: Outcome) -> dict[str, object]:
    """The same for --jsonl."""

    def figure(ratio: Ratio | None) -> dict[str, object] | None:
        return None if ratio is None else {"ratio": ratio.value, "interval": ratio.interval()}

    return {
        "best": outcome.best,
        "settings": {name: figure(ratio) for name, ratio in outcome.settings.items()},
        "chosen_on_others": figure(outcome.honest),
        "auto": figure(outcome.auto),
        "auto_to_best": figure(outcome.auto_to_best),
        "auto_to_chosen_on_others": figure(outcome.auto_to_honest),
    }


def describe_all(outcomes: Sequence[Outcome]) -> str:
    """Geometric means over the suites, and the one setting that is best for all of them."""
    overall = {
        name: statistics.geometric_mean([outcome.settings[name] for outcome in outcomes])
        for name in outcomes[0].settings
    }
    best = max(overall, key=lambda name: overall[name].value)
    to_best = statistics.geometric_mean([outcome.auto_to_best for outcome in outcomes])
    lines = [
        "\ngeometric means over the suites",
        f"  auto                    {statistics.geometric_mean([outcome.auto for outcome in outcomes])}",
        f"  best setting for all    {best}: {overall[best]}",
        f"  auto / best by suite    {to_best}",
    ]
    honest = [outcome.auto_to_honest for outcome in outcomes if outcome.auto_to_honest is not None]
    if honest:
        lines.append(f"  auto / chosen on others {statistics.geometric_mean(honest)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
