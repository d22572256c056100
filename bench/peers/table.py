"""The results as a table in Markdown, and what follows from it in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import figures
from bench.figures import Amounts, Ratio
from bench.peers.arms import ARMS, BASELINE, HOMESPEC_AUTO, HOMESPEC_PLAIN

Record = Mapping[str, Any]
Runs = Mapping[str, Mapping[str, Mapping[int, Record]]]
"""Suite -> arm -> number of the prompt -> run."""

CLOSE = 0.03
"""How far homespec's plain decoding may be from llama.cpp's."""
_LLAMA_CPP = ("llama.cpp ", "llama-server ")
# Of the processor time of a run; less is what the bench's own questions cost.
_IDLE_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Cell:
    """What an arm did on a suite, on the prompts that the baseline has answered too.

    Attributes:
        num_prompts: how many.
        tokens_per_second: of whole replies.
        ratio: to the baseline, of whole replies.
        decode_ratio: of what came after the first token.
        num_equal_texts: how many texts were the baseline's.
    """

    num_prompts: int
    tokens_per_second: float
    ratio: Ratio
    decode_ratio: Ratio
    num_equal_texts: int


class TargetTable:
    """All cells of one target."""

    def __init__(self, target: str, records: Iterable[Record]) -> None:
        """Computes them.

        Args:
            target: its name.
            records: of the file of results.
        """
        self.target = target
        records = [record for record in records if record.get("target") == target]
        self._records = records
        self.runs = _by_suite(record for record in records if record["record"] == "run")
        generator = np.random.default_rng(figures.SEED)
        self.cells: dict[str, dict[str, Cell]] = {}
        for suite, arms in self.runs.items():
            self.cells[suite] = {
                arm: _cell(runs, arms[BASELINE], generator)
                for arm, runs in sorted(arms.items(), key=lambda item: _rank(item[0]))
                if runs.keys() & arms.get(BASELINE, {}).keys()
            }

    @property
    def arms(self) -> list[str]:
        """All arms that have a cell, in their order."""
        return sorted({arm for cells in self.cells.values() for arm in cells}, key=_rank)

    def best(self, suite: str, prefixes: tuple[str, ...] = ("",)) -> str | None:
        """The fastest arm of a suite by its ratio, among those whose names begin so; None without any."""
        cells = {arm: cell for arm, cell in self.cells[suite].items() if arm.startswith(prefixes)}
        return max(cells, key=lambda arm: cells[arm].ratio.value) if cells else None

    def overall(self, arm: str, part: Callable[[Cell], Ratio] = lambda cell: cell.ratio) -> Ratio | None:
        """The geometric mean over the suites; None if the arm lacks one."""
        cells = [cells[arm] for cells in self.cells.values() if arm in cells]
        return (
            figures.geometric_mean([part(cell) for cell in cells]) if len(cells) == len(self.cells) else None
        )

    def against(self, suite: str, arm: str, other: str) -> Ratio:
        """How much faster an arm was than another, on the prompts that both have answered."""
        runs = self.runs[suite]
        ours, base = _paired(runs[arm], runs[other])
        return figures.compare(_amounts(ours), _amounts(base), np.random.default_rng(figures.SEED))

    def markdown(self) -> str:
        """The table and the sentences below it."""
        if not any(self.cells.values()):
            return f"### {self.target}\n\nNothing to compare: {BASELINE} has no results.\n"
        return "\n".join([f"### {self.target}", "", *self._rows(), "", *self._sentences(), ""])

    def _rows(self) -> list[str]:
        suites = list(self.cells)
        best = {suite: self.best(suite) for suite in suites}
        rows = [["arm", *suites, "all", "same text"], ["---"] * (len(suites) + 3)]
        for arm in self.arms:
            row = [arm]
            for suite in suites:
                cell = self.cells[suite].get(arm)
                text = _cell_text(cell) if cell else ""
                row.append(f"**{text}**" if arm == best[suite] else text)
            overall = self.overall(arm)
            cells = [cells[arm] for cells in self.cells.values() if arm in cells]
            equal, compared = sum(c.num_equal_texts for c in cells), sum(c.num_prompts for c in cells)
            rows.append([*row, str(overall or ""), f"{equal} of {compared}"])
        return [f"| {' | '.join(row)} |" for row in rows]

    def _sentences(self) -> list[str]:
        lines = [f"* {suite}: {_best_sentence(self, suite)}" for suite, cells in self.cells.items() if cells]
        plain = self.overall(HOMESPEC_PLAIN)
        decode = self.overall(HOMESPEC_PLAIN, lambda cell: cell.decode_ratio)
        if plain and decode:
            verdict = "within" if abs(plain.value - 1) <= CLOSE else "not within"
            lines.append(
                f"* {HOMESPEC_PLAIN} is {verdict} {CLOSE:.0%} of {BASELINE}: {plain}, decode only {decode}."
            )
        return [*lines, *self._warnings()]

    def _warnings(self) -> list[str]:
        runs = [run for arms in self.runs.values() for runs in arms.values() for run in runs.values()]
        disturbed = [run for run in runs if run["idle_cpu_seconds"] > _IDLE_SHARE * run["seconds"]]
        counts = Counter(run["arm"] for run in runs)
        errors = {record["arm"]: record["error"] for record in self._records if record["record"] == "failure"}
        lines = [
            f"* Left out after {counts[arm]} replies: {arm}: {error}"
            for arm, error in errors.items()
            if counts[arm] < max(counts.values(), default=1)
        ]
        if disturbed:
            lines.append(
                f"* In {len(disturbed)} of {len(runs)} runs, the processes of other arms took more than "
                f"{_IDLE_SHARE:.0%} of a core's time."
            )
        return lines


def markdown(records: Sequence[Record]) -> str:
    """All tables of a file of results, with the machine and the programs named."""
    targets = dict.fromkeys(record["target"] for record in records if "target" in record)
    return "\n".join([*_preface(records), *(TargetTable(target, records).markdown() for target in targets)])


def _preface(records: Sequence[Record]) -> list[str]:
    session = next((record for record in records if record["record"] == "session"), None)
    if session is None:
        return []
    machine, settings = session["machine"], session["settings"]
    programs = {
        f"{record['program']} {record['facts'].get('version')}"
        for record in records
        if record["record"] == "opened"
    }
    sampling = "greedy" if settings["temperature"] == 0 else f"temperature {settings['temperature']}"
    return [
        f"{machine['cpu']}, {settings['num_threads']} threads; {', '.join(sorted(programs))}; {sampling}, "
        f"at most {settings['max_tokens']} tokens, empty prompt caches. Tokens per second of whole replies, "
        f"prompt included, and the ratio to {BASELINE} with the interval of 90% that other prompts would "
        "have given; in the last column, how many texts were the same.",
        "",
    ]


def _best_sentence(table: TargetTable, suite: str) -> str:
    best, peer = table.best(suite), table.best(suite, _LLAMA_CPP)
    sentence = f"{best} is the fastest"
    if HOMESPEC_AUTO in table.cells[suite] and peer is not None:
        ratio = table.against(suite, HOMESPEC_AUTO, peer)
        sentence += f"; {HOMESPEC_AUTO} against the best of llama.cpp ({peer}): {ratio}"
    return f"{sentence}."


def _by_suite(runs: Iterable[Record]) -> dict[str, dict[str, dict[int, Record]]]:
    found: dict[str, dict[str, dict[int, Record]]] = {}
    for run in runs:
        found.setdefault(run["scenario"], {}).setdefault(run["arm"], {})[run["prompt"]] = run
    return found


def _paired(ours: Mapping[int, Record], base: Mapping[int, Record]) -> tuple[list[Record], list[Record]]:
    """The runs to the prompts that both have answered."""
    numbers = sorted(ours.keys() & base.keys())
    return [ours[number] for number in numbers], [base[number] for number in numbers]


def _cell(runs: Mapping[int, Record], baseline: Mapping[int, Record], generator: np.random.Generator) -> Cell:
    ours, base = _paired(runs, baseline)
    return Cell(
        num_prompts=len(ours),
        tokens_per_second=figures.speed(_amounts(ours)),
        ratio=figures.compare(_amounts(ours), _amounts(base), generator),
        decode_ratio=figures.compare(_amounts(ours, "decode_"), _amounts(base, "decode_"), generator),
        num_equal_texts=sum(a["text_sha256"] == b["text_sha256"] for a, b in zip(ours, base, strict=True)),
    )


def _amounts(runs: Sequence[Record], part: str = "") -> Amounts:
    return np.array([(run[f"{part}tokens"], run[f"{part}seconds"]) for run in runs], dtype=float)


def _rank(arm: str) -> int:
    names = [known.name for known in ARMS]
    return names.index(arm) if arm in names else len(names)


def _cell_text(cell: Cell) -> str:
    low, high = cell.ratio.interval()
    return f"{cell.tokens_per_second:.2f}: {cell.ratio.value:.2f} ({low:.2f} to {high:.2f})"
