"""The replies to one target's prompts: every prompt is answered by all arms, in turns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import NamedTuple

from homespec.benchmark.arms import PLAIN, Arm, in_turn
from homespec.benchmark.exactness import NEAR_TIE_GAP, first_difference, top_gap
from homespec.benchmark.measuring import Place, Prompt, measure
from homespec.benchmark.models import Models
from homespec.benchmark.records import DifferenceRecord, Recorder
from homespec.benchmark.settings import BenchSettings, Show
from homespec.errors import ResourceError
from homespec.records import Reply

_WARM_UP_TOKENS = 16


class Subject(NamedTuple):
    """A target and what it is asked.

    Attributes:
        name: of the target.
        models: made ready for each reply.
        arms: plain decoding first.
        prompts: by scenario, in their order.
        warm_up: a prompt of no scenario.
    """

    name: str
    models: Models
    arms: Sequence[Arm]
    prompts: Mapping[str, Sequence[Prompt]]
    warm_up: Prompt


def turn_places(prompts: Mapping[str, Sequence[Prompt]], repetitions: int) -> Iterator[tuple[str, int, int]]:
    """Scenario, prompt and repetition of every turn.

    The first prompt of each scenario comes before any second one, so that whatever ends a session early
    leaves something of every scenario.
    """
    for number in range(max(map(len, prompts.values()), default=0)):
        for scenario, own in prompts.items():
            if number < len(own):
                yield from ((scenario, number, repetition) for repetition in range(repetitions))


class Turns:
    """Runs the turns of a session's targets, and writes every reply down at once.

    Attributes:
        num_replies: of the whole session, for the share that is done.
    """

    def __init__(self, settings: BenchSettings, recorder: Recorder, show: Show) -> None:
        """The time limit begins now."""
        self.num_replies = 0
        self._settings = settings
        self._recorder = recorder
        self._show = show
        self._deadline = None if settings.limit_seconds is None else monotonic() + settings.limit_seconds
        self._longest_seconds = 0.0
        self._orders = itertools.count()
        self._num_done = 0

    def run(self, subject: Subject) -> None:
        """Measures a target.

        Raises:
            ResourceError: the arms no longer meet equal conditions.
            KeyboardInterrupt: stopped by the user.
        """
        if not self._settings.cold:
            self._warm_up(subject)
        gaps: dict[tuple[str, int, int], float] = {}
        for scenario, number, repetition in turn_places(subject.prompts, self._settings.repetitions):
            start = monotonic()
            if self._deadline is not None and start + self._longest_seconds > self._deadline:
                return
            if not self._settings.anyway:
                subject.models.check()
            replies = self._take_turn(subject, scenario, number, repetition)
            if self._settings.temperature == 0:
                self._compare_texts(subject, (scenario, number, repetition), replies, gaps)
            self._longest_seconds = max(self._longest_seconds, monotonic() - start)

    def _warm_up(self, subject: Subject) -> None:
        """A short reply of each arm: it counts for none of the scenarios, but a record must name one."""
        params = replace(self._settings.request(0, 0), max_tokens=_WARM_UP_TOKENS)
        for arm in subject.arms:
            self._show(f"Warming {subject.name} up", 0.0)
            place = Place(subject.name, next(iter(subject.prompts)), 0, 0, next(self._orders), warm_up=True)
            self._recorder.write(measure(subject.models, arm, subject.warm_up, params, place)[1])

    def _take_turn(self, subject: Subject, scenario: str, number: int, repetition: int) -> dict[str, Reply]:
        """The replies of all arms to one prompt, by arm."""
        prompt, params = subject.prompts[scenario][number], self._settings.request(number, repetition)
        replies: dict[str, Reply] = {}
        for arm in in_turn(subject.arms, number + repetition):
            self._show(f"{subject.name}: {scenario} {number + 1}", self._num_done / max(1, self.num_replies))
            place = Place(subject.name, scenario, number, repetition, next(self._orders))
            replies[arm.name], record = measure(subject.models, arm, prompt, params, place)
            self._recorder.write(record)
            self._num_done += 1
            if record.reason == "would_page":
                raise ResourceError(
                    f"The drafters of {subject.name} were dropped, so nothing is left to compare: "
                    f"{record.explanation}",
                    hint="Close other programs, or choose a smaller context with --context-tokens.",
                )
        return replies

    def _compare_texts(
        self,
        subject: Subject,
        turn: tuple[str, int, int],
        replies: Mapping[str, Reply],
        gaps: dict[tuple[str, int, int], float],
    ) -> None:
        """Looks at where greedy texts part from the plain one.

        Args:
            subject: the target.
            turn: scenario, prompt and repetition.
            replies: by arm.
            gaps: of scenario, prompt and position, as far as they have been looked at; grows.
        """
        scenario, number, repetition = turn
        tokens, expected = subject.prompts[scenario][number].tokens, replies[PLAIN.name].token_ids
        for name, reply in replies.items():
            at = first_difference(expected, reply.token_ids)
            if at is None:
                continue
            key = (scenario, number, at)
            if key not in gaps:
                with subject.models.ready(PLAIN) as ready:
                    gaps[key] = top_gap(ready.engine, [*tokens, *expected[:at]])
            gap = gaps[key]
            self._recorder.write(
                DifferenceRecord(
                    subject.name, scenario, number, repetition, name, at, gap, near_tie=gap < NEAR_TIE_GAP
                )
            )
