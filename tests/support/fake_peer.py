"""A worker that opens nothing and answers with its request: `python -m tests.support.fake_peer`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping

from bench.peers.protocol import Answer, Opening, Request, serve

COMPLAINT = "the fake peer's last words"


def make_answer(text: str, num_tokens: int = 8, seconds: float = 2.0, reused: int = 0) -> Answer:
    """An answer in which half of the time is the prompt's."""
    return Answer(
        text=text,
        finish_reason="length",
        num_tokens=num_tokens,
        prompt_tokens=3,
        seconds=seconds,
        ttft_seconds=seconds / 2,
        prompt_seconds=seconds / 2,
        decode_tokens=num_tokens - 1,
        decode_seconds=seconds / 2,
        reused_prompt_tokens=reused,
    )


class FakePeer:
    """Obeys its settings and its prompts."""

    def __init__(self, opening: Opening) -> None:
        if "refuse" in opening.settings:
            raise RuntimeError("it was told to refuse")
        self.facts: Mapping[str, object] = {"version": "1", "target": opening.target}

    def answer(self, request: Request) -> Answer:
        """Does what the prompt says."""
        os.write(1, b"noise on stdout\n")
        match request.prompt_text:
            case "raise":
                raise ValueError("it was told to raise")
            case "die":
                sys.stderr.write(COMPLAINT)
                sys.stderr.flush()
                os._exit(3)
            case "leave a child":
                child = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)
                sys.stderr.write(f"child {child.pid}.")
                sys.stderr.flush()
                os._exit(3)
            case "sleep":
                time.sleep(60)
            case "spin":
                end = time.process_time() + 0.2
                while time.process_time() < end:
                    pass
        return make_answer(f"{request.prompt_text} {list(request.prompt_tokens)}", request.max_tokens)

    def close(self) -> None:
        """Nothing to end."""


if __name__ == "__main__":
    serve(FakePeer)
