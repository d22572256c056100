"""Two files of results side by side: the same arms and scenarios, prompt by prompt."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from homespec.benchmark import statistics
from homespec.benchmark.results import Results, RunLine
from homespec.benchmark.statistics import Amounts, Ratio
from homespec.errors import ConfigError

Runs = Mapping[int, Sequence[RunLine]]
"""By prompt."""


@dataclass(frozen=True, slots=True)
class Change:
    """How an arm's speed differs between two files.

    Attributes:
        target: its name, or both where each file has a single one.
        scenario, arm: of the replies.
        num_prompts: that both files have.
        before, after: tokens per second, whole replies.
        ratio: of them.
        num_other_texts: prompts whose texts are not the same in both.
    """

    target: str
    scenario: str
    arm: str
    num_prompts: int
    before: float
    after: float
    ratio: Ratio
    num_other_texts: int

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "target": self.target,
            "scenario": self.scenario,
            "arm": self.arm,
            "num_prompts": self.num_prompts,
            "before_tokens_per_second": self.before,
            "after_tokens_per_second": self.after,
            "ratio": self.ratio.value,
            "interval": self.ratio.interval(),
            "num_other_texts": self.num_other_texts,
        }


def compare_results(before: Results, after: Results) -> list[Change]:
    """Every arm in every scenario that both files have.

    Raises:
        ConfigError: one has cold starts and the other warm ones, or they have no reply in common.
    """
    if bool(before.session.settings.get("cold")) != bool(after.session.settings.get("cold")):
        raise ConfigError(
            "One file has cold starts and the other warm ones: such times do not compare.",
            hint="Measure both with --cold, or both without.",
        )
    generator = np.random.default_rng(statistics.SEED)
    names = _pair_targets(before, after)
    theirs = _group(after)
    changes = []
    for (target, scenario, arm), ours in _group(before).items():
        other = names.get(target, target)
        known = theirs.get((other, scenario, arm), {})
        prompts = [prompt for prompt in ours if _is_same(ours[prompt], known.get(prompt, ()))]
        if prompts:
            name = target if target == other else f"{target} and {other}"
            changes.append(_change((name, scenario, arm), prompts, ours, known, generator))
    if not changes:
        raise ConfigError(
            "The two files have no arm, scenario and prompt in common.",
            hint="Measure the same scenarios with the same arms.",
        )
    return changes


def describe_differences(before: Results, after: Results) -> str:
    """What else differs between the sessions, in one sentence; empty if nothing does."""
    one, other = before.session, after.session
    pairs: dict[str, tuple[object, object]] = {
        "processor": (one.machine.get("cpu"), other.machine.get("cpu")),
        "kernel": (one.machine.get("kernel"), other.machine.get("kernel")),
        "governor": (one.machine.get("governor"), other.machine.get("governor")),
        "llama.cpp": (one.build, other.build),
        "homespec": (one.commit or one.version, other.commit or other.version),
        "model files": (_digests(before), _digests(after)),
    }
    for key in ("max_tokens", "temperature", "context_tokens", "threads", "batch_threads"):
        pairs[key.replace("_", " ")] = (one.settings.get(key), other.settings.get(key))
    different = [name for name, (ours, theirs) in pairs.items() if ours != theirs]
    if not different:
        return ""
    shown = [
        f"{name} ({pairs[name][0]}, then {pairs[name][1]})"
        if name not in ("model files", "llama.cpp", "homespec")
        else name
        for name in different
    ]
    return f"The sessions differ in more than their speed: {', '.join(shown)}."


def render(changes: Sequence[Change]) -> Iterator[RenderableType]:
    """Tables of 80 columns, and what to know about their figures."""
    for target, group in itertools.groupby(changes, key=lambda change: change.target):
        own = list(group)
        yield Text(f"\n{target}", style="bold")
        yield _table(own)
        for change in own:
            if change.num_other_texts:
                yield Text(
                    f"  {change.scenario}, {change.arm}: {change.num_other_texts} of {change.num_prompts} "
                    "prompts were answered with another text."
                )


def _table(changes: Sequence[Change]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    table.add_column("scenario", max_width=12, no_wrap=True, overflow="ellipsis")
    table.add_column("arm", no_wrap=True)
    for header in ("prompts", "before\ntok/s", "after\ntok/s"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("after / before", no_wrap=True)
    for change in changes:
        table.add_row(
            change.scenario,
            change.arm,
            str(change.num_prompts),
            f"{change.before:.2f}",
            f"{change.after:.2f}",
            change.ratio.describe(2),
        )
    return table


def _group(results: Results) -> dict[tuple[str, str, str], dict[int, list[RunLine]]]:
    """Target, scenario and arm -> prompt -> replies, without warm-ups."""
    groups: dict[tuple[str, str, str], dict[int, list[RunLine]]] = {}
    for run in results.runs:
        if not run.warm_up:
            group = groups.setdefault((run.target, run.scenario, run.arm), {})
            group.setdefault(run.prompt, []).append(run)
    return groups


def _pair_targets(before: Results, after: Results) -> dict[str, str]:
    """Single targets of different names (quantizations of a model, for example) are compared as well."""
    ours, theirs = ({run.target for run in results.runs} for results in (before, after))
    return {ours.pop(): theirs.pop()} if len(ours) == len(theirs) == 1 else {}


def _is_same(ours: Sequence[RunLine], theirs: Sequence[RunLine]) -> bool:
    """Whether two sets of replies answer the same prompt, by its length: files may number other prompts."""
    return bool(theirs) and len({run.prompt_tokens for run in (*ours, *theirs)}) == 1


def _change(
    place: tuple[str, str, str],
    prompts: Sequence[int],
    ours: Runs,
    theirs: Runs,
    generator: np.random.Generator,
) -> Change:
    before, after = _amounts(ours, prompts), _amounts(theirs, prompts)
    texts = [({run.text_sha256 for run in ours[p]}, {run.text_sha256 for run in theirs[p]}) for p in prompts]
    return Change(
        *place,
        num_prompts=len(prompts),
        before=statistics.speed(before),
        after=statistics.speed(after),
        ratio=statistics.compare(after, before, generator),
        num_other_texts=sum(one != other for one, other in texts),
    )


def _amounts(runs: Runs, prompts: Sequence[int]) -> Amounts:
    return np.array(
        [(sum(run.tokens for run in runs[p]), sum(run.seconds for run in runs[p])) for p in prompts],
        dtype=float,
    )


def _digests(results: Results) -> list[str]:
    return sorted(str(model.get("sha256")) for model in results.session.models)
