"""One request, from its prompt's tokens to a reply."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from time import perf_counter

from homespec.contracts import Drafter, LengthPolicy
from homespec.decoding.loop import ActiveReply, decode_steps
from homespec.decoding.stopping import Stopping
from homespec.drafting.control import Controller
from homespec.drafting.prefix import rewind
from homespec.engine.opening import OpenedModel
from homespec.engine.routing import Routing
from homespec.engine.watchdog import Watchdog
from homespec.errors import DecodeAbortedError
from homespec.records import FinishReason, FloatArray, PlanSummary, Reply, RequestParams, StepRecord
from homespec.runtime.context import BATCH_TOKENS
from homespec.sampling import Sampling
from homespec.telemetry.process import count_major_faults, read_process_memory
from homespec.telemetry.summary import Prefill, summarize


class Generation:
    """A reply in the making: iterate over it for pieces of text, then read `reply`.

    The iteration may be abandoned at any point; `reply` then describes what there is, as interrupted.

    Attributes:
        steps: made so far.
        on_prefill: told while the prompt is read how many tokens of it are done, and how many there are.
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
        routing: Routing | None,
        plan: PlanSummary,
        on_paging: Callable[[str], None],
    ) -> None:
        """Called by `Engine.generate`.

        Args:
            target: its KV cache is brought in line with `tokens`.
            tokens: the prompt; grows by the reply.
            params: of the request.
            drafter: of this request.
            sampling: of this request.
            lengths: how far to draft.
            routing: tells the controller about the text; None without one.
            plan: whether to speculate, and why.
            on_paging: told why, once, when memory runs short and the drafter has been dropped.
        """
        self._target = target
        self._params = params
        self._num_prompt_tokens = len(tokens)
        self._verifier_name = sampling.name
        self._plan = plan
        self._drafter_name = drafter.name
        self._on_paging = on_paging
        self._routing = routing
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
        self._num_reused = self._num_prefilled = 0
        self._prefill_seconds = self._ttft_seconds = self._decode_seconds = 0.0
        self._major_faults = 0
        self._finish_reason: FinishReason = "interrupted"
        self._text: list[str] = []
        self.steps: list[StepRecord] = []
        self.on_prefill: Callable[[int, int], None] = lambda done, total: None

    def __iter__(self) -> Iterator[str]:
        """Runs the request and yields its text, in pieces that are whole characters."""
        start, faults = perf_counter(), count_major_faults()
        stopping, watchdog = self._active.stopping, Watchdog()
        try:
            logits = self._prefill()
            first = self._prefill_seconds = perf_counter() - start
            for step in decode_steps(self._target.context, self._active, logits):
                self.steps.append(step)
                self._heed(watchdog)
                now = perf_counter() - start
                if len(self.steps) == 1:
                    first = self._ttft_seconds = now
                self._decode_seconds = now - first
                self._finish_reason = step.finish_reason or "interrupted"
                yield from self._show(stopping.take_text())
                if self._routing is not None:
                    self._routing.follow(len(self._active.tokens) - self._num_prompt_tokens, self._text)
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

    def _heed(self, watchdog: Watchdog) -> None:
        alarm = watchdog.alarm()
        if alarm is not None and self._plan.speculation and self._active.dropped is None:
            self._active.drop_drafter("would_page", alarm)
            self._on_paging(alarm)

    def _prefill(self) -> FloatArray:
        """Brings the prompt into the KV cache, in pieces; gives the logits behind it: (1, vocab_size)."""
        context, tokens = self._target.context, self._active.tokens
        self._num_reused = rewind(context, tokens)
        for start in range(self._num_reused, len(tokens), BATCH_TOKENS):
            piece = tokens[start : start + BATCH_TOKENS]
            self.on_prefill(start - self._num_reused, len(tokens) - self._num_reused)
            logits = context.decode(piece, rows="last" if start + len(piece) == len(tokens) else "none")
            self._num_prefilled += len(piece)
        return logits

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
                prefill=Prefill(
                    prompt_tokens=self._num_prompt_tokens,
                    reused_tokens=self._num_reused,
                    decoded_tokens=self._num_prefilled,
                    seconds=self._prefill_seconds,
                ),
                ttft_seconds=self._ttft_seconds,
                decode_seconds=self._decode_seconds,
                memory=read_process_memory(),
                major_faults=self._major_faults,
                text_kind=self._routing.kind.kind if self._routing else None,
                speedup=self._speedup(),
            ),
            plan=self._effective_plan(),
        )

    def _speedup(self) -> float | None:
        lengths = self._active.lengths
        return lengths.gain.speedup if isinstance(lengths, Controller) and self.steps else None

    def _effective_plan(self) -> PlanSummary:
        if self._active.dropped is not None:
            reason, explanation = self._active.dropped
            return replace(self._plan, speculation=False, reason=reason, explanation=explanation)
        lengths = self._active.lengths
        if isinstance(lengths, Controller) and lengths.declined:
            return replace(
                self._plan,
                speculation=False,
                reason="no_gain",
                explanation="By the measured costs, drafting would have been slower here.",
            )
        return self._plan
