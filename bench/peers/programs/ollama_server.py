"""The `ollama` on the PATH, with a server and a store of its own, which take a copy of the model's file."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.peers.programs import web
from bench.peers.protocol import Answer, Opening, Request, serve

_MODEL = "peer"
_NANOSECONDS = 1e-9


class Ollama:
    """Implements `protocol.Program`."""

    def __init__(self, opening: Opening) -> None:
        """Starts the server and gives it the model.

        Raises:
            RuntimeError: it does not start, or does not take the model.
        """
        binary = shutil.which("ollama")
        if binary is None:
            raise RuntimeError("there is no ollama on the PATH")
        self._opening = opening
        with contextlib.ExitStack() as stack:
            store = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ollama-")))
            port = web.free_port()
            environment = os.environ | {
                "OLLAMA_HOST": f"127.0.0.1:{port}",
                "OLLAMA_MODELS": str(store),
                "OLLAMA_NUM_PARALLEL": "1",
                "OLLAMA_KEEP_ALIVE": "-1",
            }
            self._server = web.Server([binary, "serve"], environment, port, "/api/version")
            stack.callback(self._server.close)
            self.facts: Mapping[str, object] = {"version": web.ask(port, "/api/version").get("version")}
            _create(binary, opening.target, store, environment)
            self._stack = stack.pop_all()

    def answer(self, request: Request) -> Answer:
        """See `Program`. Its cache cannot be switched off, so another text takes its place before."""
        self._generate(".", Request((), ".", 1, 0.0, 0))
        start = time.perf_counter()
        body = self._generate(request.prompt_text, request)
        return read_reply(body, time.perf_counter() - start)

    def _generate(self, prompt: str, request: Request) -> dict[str, Any]:
        body = generate_body(prompt, request, self._opening)
        return web.ask(self._server.port, "/api/generate", body)

    def close(self) -> None:
        """See `Program`."""
        self._stack.close()


def generate_body(prompt: str, request: Request, opening: Opening) -> dict[str, object]:
    """The body for `/api/generate`."""
    options = {
        "temperature": request.temperature,
        "seed": request.seed,
        "num_predict": request.max_tokens,
        "num_ctx": opening.context_tokens,
        "num_thread": opening.num_threads,
        "top_k": 1 if request.temperature == 0 else 0,
        "top_p": 1.0,
        "min_p": 0.0,
        "repeat_penalty": 1.0,
    }
    return {"model": _MODEL, "prompt": prompt, "raw": True, "stream": False, "options": options}


def read_reply(body: Mapping[str, Any], seconds: float) -> Answer:
    """The answer; it does not say what it found in its cache.

    Args:
        body: what came back.
        seconds: how long that took.
    """
    num_tokens = int(body["eval_count"])
    decode_seconds = body["eval_duration"] * _NANOSECONDS
    return Answer(
        text=body["response"],
        finish_reason=body.get("done_reason", "length"),
        num_tokens=num_tokens,
        prompt_tokens=int(body.get("prompt_eval_count", 0)),
        seconds=seconds,
        ttft_seconds=seconds - decode_seconds,
        prompt_seconds=body.get("prompt_eval_duration", 0) * _NANOSECONDS,
        decode_tokens=num_tokens - 1,
        decode_seconds=decode_seconds,
    )


def _create(binary: str, target: str, store: Path, environment: Mapping[str, str]) -> None:
    recipe = store / "Modelfile"
    recipe.write_text(f"FROM {target}\n", encoding="utf-8")
    command = [binary, "create", _MODEL, "-f", str(recipe)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ollama does not take the model: {(done.stderr or done.stdout).strip()[-300:]}")


if __name__ == "__main__":
    serve(Ollama)
