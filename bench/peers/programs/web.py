"""HTTP to a server that runs on this machine as a child of the worker."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

_HOST = "127.0.0.1"
_ANSWER_SECONDS = 900.0
_START_SECONDS = 600.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.1


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as listener:
        listener.bind((_HOST, 0))
        return int(listener.getsockname()[1])


def ask(port: int, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Sends a GET request, or with a body a POST request, and reads the JSON that comes back.

    Raises:
        OSError, http.client.HTTPException: there is no server, or it does not speak HTTP.
        ValueError: it answered with an error, or with no JSON.
    """
    connection = http.client.HTTPConnection(_HOST, port, timeout=_ANSWER_SECONDS)
    try:
        if body is None:
            connection.request("GET", path)
        else:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read().decode("utf-8", "replace")
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise ValueError(f"{path} answered {response.status}: {text[:300]}")
    answer: dict[str, Any] = json.loads(text)
    return answer


class Server:
    """A server as a child process."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], port: int, health: str
    ) -> None:
        """Starts it and waits until it is ready.

        Args:
            command: the program and its arguments.
            environment: of the process.
            port: where it will listen.
            health: a path that answers 200 once it is ready.

        Raises:
            RuntimeError: it ended, or is not ready in time.
        """
        self.port = port
        # Its output goes to the worker's log.
        self._process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
        try:
            self._wait(health)
        except BaseException:
            self.close()
            raise

    def _wait(self, health: str) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended with exit code {self._process.returncode}")
            try:
                ask(self.port, health)
            except (OSError, ValueError, http.client.HTTPException):
                time.sleep(_POLL_SECONDS)
            else:
                return
        raise RuntimeError(f"the server was not ready after {_START_SECONDS:.0f} s")

    def close(self) -> None:
        """Ends the process; safe to call twice."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
