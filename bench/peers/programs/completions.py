"""Requests to llama.cpp's server, and its answers, by whatever way they travel (`/v1/completions`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.peers.protocol import Answer, Request


def completion_request(request: Request) -> dict[str, object]:
    """The body: no cache, no truncation of the distribution, no penalties.

    Greedy is top-k 1, the cheapest sampler that the server has for it. By default six samplers run for each
    token, which changes nothing in the text.
    """
    greedy = request.temperature == 0
    return {
        "prompt": list(request.prompt_tokens),
        "n_predict": request.max_tokens,
        "stream": False,
        "cache_prompt": False,
        "samplers": ["top_k"] if greedy else ["temperature"],
        "top_k": 1 if greedy else 0,
        "temperature": request.temperature,
        "seed": request.seed,
    }


def read_completion(body: Mapping[str, Any], seconds: float) -> Answer:
    """The answer.

    Args:
        body: what came back.
        seconds: how long that took.

    Raises:
        ValueError: it is no completion.
    """
    if "choices" not in body:
        raise ValueError(f"the server answered {str(body)[:300]}")
    choice, timings = body["choices"][0], body["timings"]
    num_tokens = int(timings["predicted_n"])
    decode_seconds = timings["predicted_ms"] / 1000
    return Answer(
        text=choice["text"],
        finish_reason=choice["finish_reason"],
        num_tokens=num_tokens,
        prompt_tokens=int(body["usage"]["prompt_tokens"]),
        seconds=seconds,
        # predicted_ms begins with the first token.
        ttft_seconds=seconds - decode_seconds,
        prompt_seconds=timings["prompt_ms"] / 1000,
        decode_tokens=num_tokens - 1,
        decode_seconds=decode_seconds,
        reused_prompt_tokens=timings.get("cache_n"),
        # Left out where nothing was drafted.
        num_draft_tokens=int(timings.get("draft_n", 0)),
        num_accepted_tokens=int(timings.get("draft_n_accepted", 0)),
    )
