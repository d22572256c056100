"""homespec itself. It knows what decodes cost on this machine, and nothing about drafters or texts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import asdict

import homespec
from bench import figures
from bench.peers.protocol import Answer, Opening, Request, serve
from homespec.benchmark.state import experience
from homespec.calibration.fingerprint import build_fingerprint
from homespec.engine.engine import Engine
from homespec.engine.settings import EngineSettings


class ForgetfulEngine(Engine):
    """An engine that can be made to read a prompt from its beginning."""

    def forget_prompts(self) -> None:
        """Empties the KV caches."""
        self._opened.target.context.truncate(0)
        if self._opened.draft is not None:
            self._opened.draft.context.truncate(0)


class HomespecEngine:
    """Implements `protocol.Program`."""

    def __init__(self, opening: Opening) -> None:
        """Opens the models; measures the machine first if they were never used before."""
        drafters = f"ngram+{opening.draft}" if opening.draft else "ngram"
        settings = EngineSettings(
            opening.target,
            draft=drafters if opening.settings["speculate"] else "off",
            context_tokens=opening.context_tokens,
            num_threads=opening.num_threads,
            num_batch_threads=opening.num_threads,
        )
        with contextlib.ExitStack() as stack:
            stack.enter_context(experience(fresh=True))
            self._engine = ForgetfulEngine(settings)
            stack.callback(self._engine.close)
            self._stack = stack.pop_all()
        self.facts: Mapping[str, object] = {
            "version": homespec.__version__,
            "build": build_fingerprint(),
            "plan": asdict(self._engine.plan),
        }

    def answer(self, request: Request) -> Answer:
        """See `Program`."""
        self._engine.forget_prompts()
        params = figures.request(request.seed, request.temperature, request.max_tokens)
        start = time.perf_counter()
        generation = self._engine.generate(request.prompt_tokens, params)
        for _ in generation:
            pass
        seconds = time.perf_counter() - start
        reply = generation.reply
        stats = reply.stats
        return Answer(
            text=reply.text,
            finish_reason=reply.finish_reason,
            num_tokens=stats.completion_tokens,
            prompt_tokens=stats.prompt_tokens,
            seconds=seconds,
            ttft_seconds=stats.ttft_seconds,
            prompt_seconds=stats.prefill_seconds,
            decode_tokens=sum(len(step.tokens) for step in generation.steps[1:]),
            decode_seconds=stats.decode_seconds,
            reused_prompt_tokens=stats.reused_prompt_tokens,
            num_draft_tokens=stats.num_draft_tokens,
            num_accepted_tokens=stats.num_accepted_tokens,
            details={
                "draft_seconds": stats.draft_seconds,
                "verify_seconds": stats.verify_seconds,
                "sample_seconds": stats.sample_seconds,
                "num_drafts": stats.num_drafts,
                "accepted_per_position": stats.accepted_per_position,
                "drafted_per_position": stats.drafted_per_position,
                "width_counts": stats.width_counts,
                "reason": reply.plan.reason,
                "explanation": reply.plan.explanation,
                "predicted_tokens_per_second": reply.plan.predicted_tokens_per_second,
                "text_kind": stats.text_kind,
            },
        )

    def close(self) -> None:
        """See `Program`."""
        self._stack.close()


if __name__ == "__main__":
    serve(HomespecEngine)
