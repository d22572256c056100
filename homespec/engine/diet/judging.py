"""Judges drafters of one target: what each costs beside the original, and what the controller makes of it."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from homespec.calibration.costs import DrafterCosts
from homespec.calibration.curve import CostCurve
from homespec.engine.diet.passages import Passage
from homespec.engine.diet.recording import Acceptance, Recording, acceptance
from homespec.engine.diet.replay import Expectation, expect
from homespec.engine.diet.trial import Bench
from homespec.engine.preparing import NGRAM, prepare
from homespec.engine.settings import EngineSettings
from homespec.reduce.search import Score
from homespec.runtime.atomic import write_atomically

DRAFT_LENGTH = 5
"""At which mean acceptance lengths are compared."""
_ORIGINAL = "original"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is known about a drafter.

    Attributes:
        costs: of its decodes, as if measured when the original was.
        acceptance: of its tokens at draft length 5, along replies that nothing was chosen by.
        expectation: the speed that follows.
        needed_bytes: of memory, beside the target and lookup.
        fits: whether there is so much.
        file_bytes: of its file.
    """

    costs: DrafterCosts
    acceptance: Acceptance
    expectation: Expectation
    needed_bytes: int
    fits: bool
    file_bytes: int


@dataclass(slots=True)
class Judge:
    """Judges drafters, and remembers its findings on disk.

    Attributes:
        bench: with the passages.
        curve: cost curve of the target.
        original: the draft model that others are compared with.
        settings: of the target, for the memory plan.
        memory: file of the findings; None remembers nothing.
    """

    bench: Bench
    curve: CostCurve
    original: Path
    settings: EngineSettings
    memory: Path | None = None
    _known: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.memory is not None:
            with contextlib.suppress(OSError, ValueError):
                known = json.loads(self.memory.read_text(encoding="utf-8"))
                self._known = known if isinstance(known, dict) else {}

    def original_finding(self) -> Finding:
        """About the original, which all others are measured beside."""
        found = self.recall(_ORIGINAL)
        if found is None:
            costs = self.bench.measure([self.original])[0]
            found = self._finding(_ORIGINAL, self.original, costs)
        return found

    def judge(self, name: str, path: Path) -> Finding:
        """About another drafter.

        Args:
            name: under which it is remembered.
            path: of its file.

        Raises:
            DecodeAbortedError: stopped on request.
            VocabMismatchError: it does not speak the target's tokens.
        """
        return self.recall(name) or self._finding(name, path, self.measure(name, path))

    def measure(self, name: str, path: Path) -> DrafterCosts:
        """What a drafter costs, by turns with the original, as if measured when that was.

        Raises:
            DecodeAbortedError: stopped on request.
            VocabMismatchError: it does not speak the target's tokens.
        """
        name = f"{name}: costs"
        with contextlib.suppress(KeyError, TypeError, ValueError):
            return DrafterCosts.from_json(self._known[name])
        reference = self.original_finding().costs
        now, costs = self.bench.measure([self.original, path])
        ratio = reference.seconds_per_token / now.seconds_per_token
        costs = DrafterCosts(
            seconds_per_token=costs.seconds_per_token * ratio,
            catch_up_seconds=costs.catch_up_seconds * ratio,
            prefill_tokens_per_second=costs.prefill_tokens_per_second / ratio,
        )
        self._remember(name, asdict(costs))
        return costs

    def lookup_alone(self) -> Expectation:
        """What the controller expects without a draft model."""
        return expect(self.curve, None, [Recording(passage, (), ()) for passage in self._judged()])

    def recall(self, name: str) -> Finding | None:
        """What was found earlier."""
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            known = self._known[name]
            shares = tuple(known["acceptance"]["by_position"])
            return Finding(
                costs=DrafterCosts.from_json(known["costs"]),
                acceptance=replace(Acceptance(**known["acceptance"]), by_position=shares),
                expectation=Expectation(**known["expectation"]),
                needed_bytes=int(known["needed_bytes"]),
                fits=known["fits"] is True,
                file_bytes=int(known["file_bytes"]),
            )
        return None

    def _judged(self) -> list[Passage]:
        return [passage for passage in self.bench.passages if not passage.counted]

    def _finding(self, name: str, path: Path, costs: DrafterCosts) -> Finding:
        recordings = self.bench.record(path, self._judged())
        preparation = prepare(replace(self.settings, draft=f"{NGRAM}+{path}"))
        options = reversed(preparation.plan.options)
        prices: dict[str, int] = {option.kind: option.price.needed_bytes for option in options}
        found = Finding(
            costs=costs,
            acceptance=acceptance(recordings, DRAFT_LENGTH),
            expectation=expect(self.curve, costs, recordings),
            needed_bytes=prices.get("draft", 0) - prices.get(NGRAM, 0),
            fits=preparation.option.kind == "draft" and preparation.option.fits,
            file_bytes=path.stat().st_size,
        )
        self._remember(name, asdict(found))
        return found

    def _remember(self, name: str, facts: dict[str, Any]) -> None:
        self._known[name] = facts
        if self.memory is not None:
            # A disk that cannot be written costs the next search its time, and nothing else.
            with contextlib.suppress(OSError):
                write_atomically(self.memory, json.dumps(self._known, indent=1))


def score(found: Finding, original: Finding, *, of_itself: bool) -> Score:
    """What the search goes by.

    Args:
        found: about a drafter.
        original: about what it was made from.
        of_itself: that is the target, whose own drafts are always right: nothing is lost against it.
    """
    lost = 0.0 if of_itself else original.acceptance.mean_length - found.acceptance.mean_length
    return Score(found.expectation.speedup, found.expectation.fixed_speedup, lost, found.fits)
