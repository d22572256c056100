"""The `llama-server` on the PATH. Settings are its own options, without the dashes."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping

from bench.peers.programs import web
from bench.peers.programs.completions import completion_request, read_completion
from bench.peers.protocol import Answer, Opening, Request, serve


class LlamaServer:
    """Implements `protocol.Program`."""

    def __init__(self, opening: Opening) -> None:
        """Starts the server.

        Raises:
            RuntimeError: it does not start.
        """
        binary = shutil.which("llama-server")
        if binary is None:
            raise RuntimeError("there is no llama-server on the PATH")
        self.facts: Mapping[str, object] = {"version": _version(binary)}
        port = web.free_port()
        self._server = web.Server([binary, *arguments(opening, port)], os.environ, port, "/health")

    def answer(self, request: Request) -> Answer:
        """See `Program`."""
        body = completion_request(request)
        start = time.perf_counter()
        answer = web.ask(self._server.port, "/v1/completions", body)
        return read_completion(answer, time.perf_counter() - start)

    def close(self) -> None:
        """See `Program`."""
        self._server.close()


def arguments(opening: Opening, port: int) -> list[str]:
    """The command line behind the program's name."""
    threads = str(opening.num_threads)
    options: dict[str, object] = {
        "model": opening.target,
        "ctx-size": opening.context_tokens,
        "threads": threads,
        "threads-batch": threads,
        "parallel": 1,
        "cache-ram": 0,
        "host": "127.0.0.1",
        "port": port,
    }
    if opening.draft is not None:
        options |= {"model-draft": opening.draft, "threads-draft": threads, "threads-batch-draft": threads}
    options |= opening.settings
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


def _version(binary: str) -> str:
    done = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False, timeout=60)
    lines = (done.stderr + done.stdout).splitlines()
    found = next((line for line in lines if line.startswith("version:")), "version unknown")
    return found.removeprefix("version:").strip()


if __name__ == "__main__":
    serve(LlamaServer)
