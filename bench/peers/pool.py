"""Open workers: all of them if memory allows, since opening a model takes seconds and leaves it cold."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from bench.peers.arms import Arm
from bench.peers.protocol import Request
from bench.peers.workers import Worker

WARM_UP_TOKENS = 16
_UNKNOWN_BYTES = 1_000_000_000


class WorkerPool:
    """Opens workers on demand, and closes others when memory runs short.

    Weights are mapped from one file by all workers and so are there once; what each has of its own is
    anonymous: repacked weights, KV cache, buffers.
    """

    def __init__(
        self,
        start: Callable[[Arm], Worker],
        warm_up: Request,
        *,
        model_bytes: int,
        headroom_bytes: Callable[[], int],
    ) -> None:
        """Opens nothing yet.

        Args:
            start: opens an arm's worker.
            warm_up: what every worker answers first, unmeasured.
            model_bytes: size of the model files.
            headroom_bytes: what of the machine's memory could be used now, the page cache included.
        """
        self._start = start
        self._warm_up = warm_up
        self._model_bytes = model_bytes
        self._headroom_bytes = headroom_bytes
        # The arm used last comes last.
        self._workers: dict[str, Worker] = {}
        self._largest_bytes = 0

    def worker(self, arm: Arm) -> Worker:
        """The arm's worker, open and warm.

        Raises:
            WorkerError: it cannot be had.
        """
        worker = self._workers.pop(arm.name, None)
        if worker is None:
            self._make_room()
            worker = self._start(arm)
            try:
                worker.answer(self._warm_up)
            except BaseException:
                worker.close()
                raise
            self._largest_bytes = max(self._largest_bytes, worker.anonymous_bytes())
        self._workers[arm.name] = worker
        return worker

    def others(self, arm: Arm) -> Iterator[Worker]:
        """The open workers of all other arms."""
        return (worker for name, worker in self._workers.items() if name != arm.name)

    def _make_room(self) -> None:
        """Closes workers until one more can be expected to fit.

        The arms take turns, so the one that was used last is the one that is wanted again last.
        """
        expected_bytes = self._largest_bytes or self._model_bytes + _UNKNOWN_BYTES
        while self._workers and self._headroom_bytes() - self._model_bytes < expected_bytes:
            name, worker = self._workers.popitem()
            sys.stderr.write(f"Closing {name} to make room.\n")
            worker.close()

    def close(self, arm: Arm | None = None) -> None:
        """Ends an arm's worker, or all of them.

        Args:
            arm: None for all.
        """
        for name in [arm.name] if arm else list(self._workers):
            if (worker := self._workers.pop(name, None)) is not None:
                worker.close()
