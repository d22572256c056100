"""The bench's end of the line to a worker."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.peers import environments
from bench.peers.arms import Arm
from bench.peers.protocol import Answer, Opening, Request

OPEN_SECONDS, ANSWER_SECONDS, CLOSE_SECONDS = 900.0, 900.0, 20.0
_ROOT = Path(__file__).resolve().parents[2]
_LOG_CHARACTERS = 400
_TICKS = os.sysconf("SC_CLK_TCK")


class WorkerError(Exception):
    """A worker could not be started, could not do what it was asked, or ended."""


class Worker:
    """A process of its own session, so that its children can be counted, and ended, with it."""

    def __init__(self, command: Sequence[str]) -> None:
        """Starts the process.

        Args:
            command: it finds the repository on its PYTHONPATH.
        """
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=os.environ | {"PYTHONPATH": str(_ROOT)},
            start_new_session=True,
        )
        self._received = b""
        self._is_idle = True
        self.facts: Mapping[str, Any] = {}

    def open(self, opening: Opening) -> None:
        """Opens the models.

        Raises:
            WorkerError: that did not work.
        """
        self.facts = self.ask({"open": asdict(opening)}, OPEN_SECONDS)["opened"]

    def answer(self, request: Request) -> Answer:
        """Asks for a reply.

        Raises:
            WorkerError: there was none.
        """
        return Answer(**self.ask(asdict(request), ANSWER_SECONDS))

    def ask(self, message: Mapping[str, object], timeout_seconds: float) -> dict[str, Any]:
        """Sends a message and waits for what comes back.

        Raises:
            WorkerError: the worker answered with an error, ended, or took too long.
        """
        assert self._process.stdin is not None
        self._is_idle = False
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._ended() from error
        answer: dict[str, Any] = json.loads(self._read_line(time.monotonic() + timeout_seconds))
        self._is_idle = True
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def _read_line(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        handle = self._process.stdout.fileno()
        while b"\n" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([handle], [], [], left)[0]:
                raise WorkerError(f"no answer in time; its log ends with: {self._log_end()}")
            piece = os.read(handle, 1 << 16)
            if not piece:
                raise self._ended()
            self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _ended(self) -> WorkerError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_SECONDS)
        code = self._process.returncode
        return WorkerError(f"the worker ended with exit code {code}; its log ends with: {self._log_end()}")

    def _log_end(self) -> str:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _LOG_CHARACTERS))
        return " ".join(self._log.read().decode("utf-8", "replace").split())

    def cpu_seconds(self) -> float:
        """Processor time of the worker and its children so far."""
        return sum((int(stat[11]) + int(stat[12])) / _TICKS for _, stat in self._processes())

    def anonymous_bytes(self) -> int:
        """Memory of the worker and its children that is no file's: it cannot be shared or dropped."""
        return sum(_anonymous_bytes(directory) for directory, _ in self._processes())

    def _processes(self) -> Iterator[tuple[Path, list[str]]]:
        """The session's processes: their directories in /proc, and the fields of `stat` from the state on."""
        for directory in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                stat = (directory / "stat").read_text().rpartition(")")[2].split()
                if int(stat[3]) == self._process.pid:
                    yield directory, stat

    def close(self) -> None:
        """Ends the worker and its children; safe to call twice.

        An idle one may end by itself. One that is still about an answer nobody waits for is not listening.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        if self._is_idle:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_SECONDS)
        # Also behind a worker that is gone: if it died, its children may have outlived it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()
        self._log.close()


def start_worker(arm: Arm, opening: Opening) -> Worker:
    """Starts an arm's worker and opens its models.

    Raises:
        WorkerError: that did not work.
    """
    try:
        python = environments.interpreter(arm.program)
    except environments.InstallError as error:
        raise WorkerError(str(error)) from error
    worker = Worker([str(python), "-m", f"bench.peers.programs.{arm.program.module}"])
    try:
        worker.open(opening)
    except BaseException:
        worker.close()
        raise
    return worker


def _anonymous_bytes(directory: Path) -> int:
    with contextlib.suppress(OSError):
        for line in (directory / "status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0
