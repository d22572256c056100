"""The measuring: every prompt is answered by all arms, one after another, and who begins changes by turns."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Mapping, Sequence

from bench.peers.arms import Arm
from bench.peers.pool import WorkerPool
from bench.peers.prompts import Prompt, Rendered
from bench.peers.protocol import Answer, Request
from bench.peers.results import Key, Measurement, Results, Settings
from bench.peers.workers import Worker, WorkerError
from homespec.units import format_seconds

# Threads of OpenMP go on spinning for 0.2 s behind the last decode (KMP_BLOCKTIME); then the cores are free.
PAUSE_SECONDS = 0.4

Task = tuple[Prompt, Arm]


def make_request(rendered: Rendered, settings: Settings, seed: int, max_tokens: int) -> Request:
    """The request for a prompt.

    Args:
        rendered: the prompt.
        settings: of all requests.
        seed: of this one.
        max_tokens: of this one.
    """
    return Request(rendered.tokens, rendered.text, max_tokens, settings.temperature, seed)


def in_turns(arms: Sequence[Arm], turn: int) -> list[Arm]:
    """The arms in their order, another one first at every turn."""
    start = turn % len(arms)
    return [*arms[start:], *arms[:start]]


def missing_tasks(
    target: str, prompts: Sequence[Prompt], arms: Sequence[Arm], done: Collection[Key]
) -> list[Task]:
    """What is left to measure of a target, in order."""
    return [
        (prompt, arm)
        for turn, prompt in enumerate(prompts)
        for arm in in_turns(arms, turn)
        if Key(target, prompt.suite, prompt.number, arm.name) not in done
    ]


class Schedule:
    """Measures one target."""

    def __init__(self, target: str, pool: WorkerPool, results: Results, pause_seconds: float) -> None:
        """Borrows everything.

        Args:
            target: its name.
            pool: the workers.
            results: where the answers go.
            pause_seconds: before every question.
        """
        self._target = target
        self._pool = pool
        self._results = results
        self._pause_seconds = pause_seconds
        self._out: set[str] = set()
        self._told: set[str] = set()
        self._num_measured = 0

    def run(self, tasks: Sequence[Task], requests: Mapping[Prompt, Request]) -> None:
        """Measures; an arm that fails is left out from then on.

        Args:
            tasks: what, in order.
            requests: for each prompt.
        """
        start = time.monotonic()
        for number, (prompt, arm) in enumerate(tasks, start=1):
            if arm.name in self._out:
                continue
            try:
                measurement = self._measure(arm, requests[prompt])
            except WorkerError as error:
                self._leave_out(arm, str(error))
                continue
            self._results.add(self._target, prompt, arm, measurement)
            left_seconds = (time.monotonic() - start) / number * (len(tasks) - number)
            speed = measurement.answer.num_tokens / measurement.answer.seconds
            sys.stderr.write(
                f"[{number}/{len(tasks)}] {self._target}, {prompt.suite} {prompt.number}, {arm.name}: "
                f"{speed:.2f} tokens/s; {format_seconds(left_seconds)} left\n"
            )

    def _measure(self, arm: Arm, request: Request) -> Measurement:
        worker = self._pool.worker(arm)
        self._tell(arm, worker)
        others = list(self._pool.others(arm))
        time.sleep(self._pause_seconds)
        before = sum(other.cpu_seconds() for other in others)
        answer = worker.answer(request)
        idle_cpu_seconds = sum(other.cpu_seconds() for other in others) - before
        _check(answer, request)
        self._num_measured += 1
        return Measurement(answer, self._num_measured, idle_cpu_seconds, worker.anonymous_bytes())

    def _tell(self, arm: Arm, worker: Worker) -> None:
        if arm.name not in self._told:
            self._told.add(arm.name)
            self._results.opened(self._target, arm, worker.facts, worker.anonymous_bytes())

    def _leave_out(self, arm: Arm, error: str) -> None:
        sys.stderr.write(f"{arm.name} is left out: {error}\n")
        self._out.add(arm.name)
        self._pool.close(arm)
        self._results.failed(self._target, arm, error)


def _check(answer: Answer, request: Request) -> None:
    """Refuses answers to something else than what was asked.

    Raises:
        WorkerError: the comparison would not be fair.
    """
    if answer.reused_prompt_tokens:
        raise WorkerError(f"{answer.reused_prompt_tokens} tokens of the prompt came from a cache")
    if not 0 < answer.num_tokens <= request.max_tokens:
        raise WorkerError(f"{answer.num_tokens} tokens came back; 1 to {request.max_tokens} were asked for")
