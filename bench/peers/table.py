"""The results as a table in Markdown, and what follows from it in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bench.peers.arms import ARMS, BASELINE, HOMESPEC_AUTO, HOMESPEC_PLAIN
from homespec.benchmark import statistics
from homespec.benchmark.statistics import Amounts, Ratio

Record = Mapping[str, Any]
Runs = Mapping[int, Record]
"""Number of the prompt -> run."""
Part = Literal["", "decode_"]

CLOSE = 0.03
"""How far homespec's plain decoding may be from llama.cpp's."""
_LLAMA_CPP = ("llama.cpp ", "llama-server ")
_PLAIN_PEERS = ("llama.cpp plain", "llama-server plain", "llama-cpp-python plain")
# Of the processor time of a run; less is what the bench's own questions cost.
_IDLE_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Pairs:
    """The runs of two arms to the prompts that both have answered.

    Attributes:
        ours, base: in the same order, one at least.
    """

    ours: Sequence[Record]
    base: Sequence[Record]

    def ratio(self, part: Part = "") -> Ratio:
        """How much faster ours are: whole replies, or what came after the first token."""
        generator = np.random.default_rng(statistics.SEED)
        return statistics.compare(_amounts(self.ours, part), _amounts(self.base, part), generator)

    @property
    def tokens_per_second(self) -> float:
        """Speed of ours, whole replies."""
        return statistics.speed(_amounts(self.ours))

    @property
    def num_equal_texts(self) -> int:
        """How often both said the same."""
        texts = ([run["text_sha256"] for run in runs] for runs in (self.ours, self.base))
        return sum(one == other for one, other in zip(*texts, strict=True))


class TargetTable:
    """All arms and suites of one target."""

    def __init__(self, target: str, records: Iterable[Record], baseline: str = BASELINE) -> None:
        """Sorts the records.

        Args:
            target: its name.
            records: of the file of results.
            baseline: the arm that all others are compared with.
        """
        self.target = target
        self.baseline = baseline
        self._runs: dict[str, dict[str, dict[int, Record]]] = {}
        self._errors: dict[str, str] = {}
        for record in records:
            if record.get("target") != target:
                continue
            if record["record"] == "run":
                of_arm = self._runs.setdefault(record["scenario"], {}).setdefault(record["arm"], {})
                of_arm[record["prompt"]] = record
            elif record["record"] == "failure":
                self._errors[record["arm"]] = record["error"]

    @property
    def suites(self) -> list[str]:
        """Names of the suites that the baseline has begun."""
        return [suite for suite, arms in self._runs.items() if self.baseline in arms]

    @property
    def arms(self) -> list[str]:
        """All arms that answered something that the baseline has answered too, in their order."""
        found = {arm for suite in self.suites for arm in self._runs[suite] if self.pairs(suite, arm)}
        return sorted(found, key=_rank)

    def pairs(self, suite: str, arm: str, other: str | None = None) -> Pairs | None:
        """The runs of an arm and another, by default the baseline; None if no prompt is common to both."""
        arms = self._runs[suite]
        ours, base = arms.get(arm, {}), arms.get(other or self.baseline, {})
        numbers = sorted(ours.keys() & base.keys())
        return Pairs([ours[n] for n in numbers], [base[n] for n in numbers]) if numbers else None

    def overall(self, arm: str, other: str | None = None, part: Part = "") -> Ratio | None:
        """The geometric mean over the suites; None if one of the arms lacks one."""
        pairs = [self.pairs(suite, arm, other) for suite in self.suites]
        found = [pair.ratio(part) for pair in pairs if pair]
        return statistics.geometric_mean(found) if len(found) == len(pairs) > 0 else None

    def best(self, suite: str, prefixes: tuple[str, ...] = ("",)) -> str | None:
        """The arm of a suite with the highest ratio, among those whose names begin so; None without any."""
        pairs = {arm: self.pairs(suite, arm) for arm in self.arms if arm.startswith(prefixes)}
        values = {arm: pair.ratio().value for arm, pair in pairs.items() if pair}
        return max(values, key=lambda arm: values[arm]) if values else None

    def markdown(self) -> str:
        """The table and the sentences below it."""
        lines = [f"### {self.target}", ""]
        if self.suites:
            lines += [*self._rows(), "", *self._best_lines(), *self._plain_lines(), *self._warnings()]
        else:
            lines += [f"Nothing to compare: {self.baseline} has no results.", "", *self._warnings()]
        return "\n".join([*lines, ""])

    def _rows(self) -> list[str]:
        best = {suite: self.best(suite) for suite in self.suites}
        rows = [["arm", *self.suites, "all", "accepted", "same text"]]
        rows.append(["---"] * len(rows[0]))
        for arm in self.arms:
            pairs = {suite: self.pairs(suite, arm) for suite in self.suites}
            cells = [
                f"**{_cell(pair)}**" if pair and arm == best[suite] else _cell(pair)
                for suite, pair in pairs.items()
            ]
            found = [pair for pair in pairs.values() if pair]
            equal = sum(pair.num_equal_texts for pair in found)
            compared = sum(len(pair.ours) for pair in found)
            overall = str(self.overall(arm) or "")
            rows.append([arm, *cells, overall, _accepted(found), f"{equal} of {compared}"])
        return [f"| {' | '.join(row)} |" for row in rows]

    def _best_lines(self) -> list[str]:
        lines = []
        for suite in self.suites:
            line = f"* {suite}: {self.best(suite)} is the fastest"
            peer = self.best(suite, _LLAMA_CPP)
            if peer and (pair := self.pairs(suite, HOMESPEC_AUTO, peer)):
                line += f"; {HOMESPEC_AUTO} against the best of llama.cpp ({peer}): {pair.ratio()}"
            lines.append(f"{line}.")
        return lines

    def _plain_lines(self) -> list[str]:
        lines = []
        for peer in _PLAIN_PEERS:
            ratio = self.overall(HOMESPEC_PLAIN, peer)
            if ratio is not None:
                decode = self.overall(HOMESPEC_PLAIN, peer, "decode_")
                lines.append(
                    f"* {HOMESPEC_PLAIN} is {_verdict(ratio.value)} {peer}: {ratio}, decode only {decode}."
                )
        return lines

    def _warnings(self) -> list[str]:
        runs = [run for arms in self._runs.values() for of_arm in arms.values() for run in of_arm.values()]
        disturbed = [run for run in runs if run["idle_cpu_seconds"] > _IDLE_SHARE * run["seconds"]]
        counts = Counter(run["arm"] for run in runs)
        lines = [
            f"* Left out after {counts[arm]} replies: {arm}: {error}"
            for arm, error in self._errors.items()
            if counts[arm] < max(counts.values(), default=1)
        ]
        if disturbed:
            lines.append(
                f"* In {len(disturbed)} of {len(runs)} runs, the processes of other arms took more than "
                f"{_IDLE_SHARE:.0%} of a core's time."
            )
        return lines


def markdown(records: Sequence[Record], baseline: str = BASELINE) -> str:
    """All tables of a file of results, with the machine and the programs named.

    Args:
        records: of the file.
        baseline: the arm that all others are compared with.
    """
    targets = dict.fromkeys(record["target"] for record in records if "target" in record)
    tables = (TargetTable(target, records, baseline).markdown() for target in targets)
    return "\n".join([*_preface(records, baseline), *tables])


def _preface(records: Sequence[Record], baseline: str) -> list[str]:
    sessions = [record for record in records if record["record"] == "session"]
    if not sessions:
        return []
    machine, settings = sessions[0]["machine"], sessions[0]["settings"]
    commits = sorted({session["commit"] or "unknown" for session in sessions})
    opened = [record for record in records if record["record"] == "opened"]
    programs = sorted({f"{record['program']} {record['facts'].get('version')}" for record in opened})
    sampling = "greedy" if settings["temperature"] == 0 else f"temperature {settings['temperature']}"
    return [
        f"{machine['cpu']}, {settings['num_threads']} threads; {', '.join(programs)}; commit "
        f"{', '.join(commits)}; {sampling}, at most "
        f"{settings['max_tokens']} tokens, empty prompt caches. Tokens per second of whole replies, prompt "
        f"included, and the ratio to {baseline} with the interval of 90% that other prompts would have "
        "given; then their geometric mean, the drafted tokens that were accepted, and the texts that were "
        f"those of {baseline}.",
        "",
    ]


def _amounts(runs: Sequence[Record], part: Part = "") -> Amounts:
    return np.array([(run[f"{part}tokens"], run[f"{part}seconds"]) for run in runs], dtype=float)


def _rank(arm: str) -> int:
    names = [known.name for known in ARMS]
    return names.index(arm) if arm in names else len(names)


def _cell(pair: Pairs | None) -> str:
    if pair is None:
        return ""
    return f"{pair.tokens_per_second:.2f}: {pair.ratio().describe(2)}"


def _accepted(pairs: Iterable[Pairs]) -> str:
    runs = [run for pair in pairs for run in pair.ours]
    drafted = sum(run["num_draft_tokens"] or 0 for run in runs)
    return f"{sum(run['num_accepted_tokens'] or 0 for run in runs)} of {drafted}" if drafted else ""


def _verdict(ratio: float) -> str:
    if abs(ratio - 1) <= CLOSE:
        return f"within {CLOSE:.0%} of"
    return f"more than {CLOSE:.0%} {'faster' if ratio > 1 else 'slower'} than"
