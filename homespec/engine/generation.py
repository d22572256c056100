"""One request, from its prompt's tokens to a reply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter

from homespec.contracts import Drafter, LengthPolicy
from homespec.decoding.loop import ActiveReply, decode_steps
from homespec.decoding.stopping import Stopping
from homespec.drafting.prefix import rewind
from homespec.engine.opening import OpenedModel
from homespec.errors import DecodeAbortedError
from homespec.records import FinishReason, PlanSummary, Reply, RequestParams, StepRecord
from homespec.runtime.context import BATCH_TOKENS
from homespec.sampling import Sampling
from homespec.telemetry.process import count_major_faults, read_process_memory
from homespec.telemetry.summary import summarize


class Generation:
    """A reply in the making: iterate over it for pieces of text, then read `reply`.

    The iteration may be abandoned at any point; `reply` then describes what there is, as interrupted.
    """

    def __init__(
        self,
        *,
        target: OpenedModel,
        tokens: list[int],
        params: RequestParams,
        drafter: Drafter,
        sampling: Sampling,
        lengths: LengthPolicy,
        plan: PlanSummary,
    ) -> None:
        self._target = target
        self._params = params
        self._num_prompt_tokens = len(tokens)
        self._verifier_name = sampling.name
        self._plan = plan
        self._drafter_name = drafter.name
        vocabulary = target.model.vocabulary
        self._active = ActiveReply(
            tokens=tokens,
            drafter=drafter,
            verifier=sampling.verifier,
            lengths=lengths,
            stopping=Stopping(
                is_end=vocabulary.is_end,
                token_bytes=vocabulary.token_bytes,
                stop_strings=params.stop,
                max_tokens=params.max_tokens,
                context_tokens=target.context.context_tokens,
            ),
        )
        self._num_reused = 0
        self._prefill_seconds = self._ttft_seconds = self._decode_seconds = 0.0
        self._major_faults = 0
        self._finish_reason: FinishReason = "interrupted"
        self._text: list[str] = []
        self.steps: list[StepRecord] = []

    def __iter__(self) -> Iterator[str]:
        """Runs the request and yields its text, in pieces that are whole characters."""
        start, faults = perf_counter(), count_major_faults()
        stopping = self._active.stopping
        try:
            self._prefill()
            first = self._prefill_seconds = perf_counter() - start
            for step in decode_steps(self._target.context, self._active):
                self._active.lengths.observe(step)
                self.steps.append(step)
                now = perf_counter() - start
                if len(self.steps) == 1:
                    first = self._ttft_seconds = now
                self._decode_seconds = now - first
                self._finish_reason = step.finish_reason or "interrupted"
                yield from self._show(stopping.take_text())
        except DecodeAbortedError:
            # Stopped in the middle of the prompt: what was decoded of it stays for the next try.
            self._prefill_seconds = perf_counter() - start
        finally:
            self._major_faults = count_major_faults() - faults
            rest = stopping.finish_text()
            if rest:
                self._text.append(rest)
        if rest:
            yield rest

    def _show(self, text: str) -> Iterator[str]:
        if text:
            self._text.append(text)
            yield text

    def _prefill(self) -> None:
        """Brings all of the prompt but its last token into the KV cache, in pieces."""
        context, tokens = self._target.context, self._active.tokens
        self._num_reused = rewind(context, tokens)
        for start in range(self._num_reused, len(tokens) - 1, BATCH_TOKENS):
            context.decode(tokens[start : min(start + BATCH_TOKENS, len(tokens) - 1)], rows="none")

    @property
    def reply(self) -> Reply:
        """The reply so far, whole once the iteration has ended."""
        return Reply(
            text="".join(self._text),
            token_ids=tuple(self._active.tokens[self._num_prompt_tokens :]),
            finish_reason=self._finish_reason,
            target=self._target.name,
            drafter=self._drafter_name,
            verifier=self._verifier_name,
            seed=self._params.sampling.seed,
            stats=summarize(
                self.steps,
                prompt_tokens=self._num_prompt_tokens,
                reused_prompt_tokens=self._num_reused,
                prefill_seconds=self._prefill_seconds,
                ttft_seconds=self._ttft_seconds,
                decode_seconds=self._decode_seconds,
                memory=read_process_memory(),
                major_faults=self._major_faults,
            ),
            plan=self._effective_plan(),
        )

    def _effective_plan(self) -> PlanSummary:
        failure = self._active.drafter_failure
        if failure is None:
            return self._plan
        return replace(self._plan, speculation=False, reason="drafter_failed", explanation=failure)
