"""Stand-ins for `llama-server` and `ollama` that speak their HTTP."""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def install(monkeypatch: pytest.MonkeyPatch, directory: Path, name: str) -> None:
    """Puts a stand-in on the PATH."""
    program = directory / name
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.support.fake_servers {name} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


class LlamaServerHandler(BaseHTTPRequestHandler):
    """Answers completions with what it was asked and how it was started."""

    def do_GET(self) -> None:
        """Health."""
        self.reply({"status": "ok"})

    def do_POST(self) -> None:
        """Completions."""
        body = self.body()
        if self.path != "/v1/completions" or not body["prompt"]:
            self.reply({"error": {"message": "no prompt"}}, 400)
            return
        timings: dict[str, float] = {"predicted_n": 5, "predicted_ms": 4.0, "prompt_ms": 2.0, "cache_n": 0}
        if "--spec-type" in sys.argv:
            timings |= {"draft_n": 6, "draft_n_accepted": 4}
        text = json.dumps({"body": body, "arguments": sys.argv[2:]})
        self.reply(
            {
                "choices": [{"text": text, "finish_reason": "length"}],
                "usage": {"prompt_tokens": len(body["prompt"]), "completion_tokens": 5},
                "timings": timings,
            }
        )

    def body(self) -> dict[str, Any]:
        """The JSON that came in."""
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return body

    def reply(self, answer: object, status: int = 200) -> None:
        """Sends JSON."""
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


class OllamaHandler(LlamaServerHandler):
    """Answers with all prompts that it ever got."""

    prompts: list[str] = []  # noqa: RUF012 - one server, one list

    def do_GET(self) -> None:
        """Version."""
        self.reply({"version": "0.99"})

    def do_POST(self) -> None:
        """Generation."""
        body = self.body()
        self.prompts.append(body["prompt"])
        self.reply(
            {
                "response": json.dumps({"prompts": self.prompts, "body": body}),
                "done_reason": "stop",
                "prompt_eval_count": 3,
                "prompt_eval_duration": 2_000_000,
                "eval_count": 5,
                "eval_duration": 4_000_000,
            }
        )


def main() -> None:
    """Runs a stand-in."""
    match sys.argv[1:]:
        case ["llama-server", "--version"]:
            sys.stderr.write("version: 4711 (abcdef)\nbuilt with care\n")
        case ["llama-server", *arguments]:
            port = int(arguments[arguments.index("--port") + 1])
            HTTPServer(("127.0.0.1", port), LlamaServerHandler).serve_forever()
        case ["ollama", "create", _, "-f", recipe]:
            sys.exit("no such file" if "missing" in Path(recipe).read_text() else 0)
        case ["ollama", "serve"]:
            port = int(os.environ["OLLAMA_HOST"].rpartition(":")[2])
            HTTPServer(("127.0.0.1", port), OllamaHandler).serve_forever()
        case _:
            sys.exit(f"unknown arguments {sys.argv[1:]}")


if __name__ == "__main__":
    main()
