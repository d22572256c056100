"""llama-cpp-python's `Llama`, plain or with its prompt lookup."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import llama_cpp
import numpy as np
import numpy.typing as npt
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

from bench.peers.protocol import Answer, Opening, Request, serve


class CountingLookup(LlamaPromptLookupDecoding):
    """Counts what it proposes.

    Attributes:
        drafts: of each call: tokens of the history, and of the draft.
    """

    def __init__(self, num_pred_tokens: int) -> None:
        super().__init__(num_pred_tokens=num_pred_tokens)
        self.drafts: list[tuple[int, int]] = []

    def __call__(self, input_ids: npt.NDArray[np.intc], /, **kwargs: Any) -> npt.NDArray[np.intc]:
        """See the base class."""
        draft = super().__call__(input_ids, **kwargs)
        self.drafts.append((len(input_ids), len(draft)))
        return draft


def count_accepted(drafts: Sequence[tuple[int, int]], end: int) -> int:
    """How many tokens of the drafts were taken: what the history grew by between two, less the target's own.

    Args:
        drafts: tokens of the history before each draft, and of the draft.
        end: tokens of the whole history.
    """
    lengths = [*(length for length, _ in drafts), end]
    grown = (after - before for before, after in pairwise(lengths))
    return sum(min(size, max(0, growth - 1)) for growth, (_, size) in zip(grown, drafts, strict=True))


class LlamaCppPython:
    """Implements `protocol.Program`."""

    def __init__(self, opening: Opening) -> None:
        """Loads the model."""
        num_pred_tokens = opening.settings.get("num_pred_tokens")
        self._lookup = CountingLookup(int(str(num_pred_tokens))) if num_pred_tokens else None
        self._llama = llama_cpp.Llama(
            opening.target,
            n_ctx=opening.context_tokens,
            n_threads=opening.num_threads,
            n_threads_batch=opening.num_threads,
            draft_model=self._lookup,
            # With a draft model it keeps all logits in any case, but makes room for them only when told.
            logits_all=self._lookup is not None,
            verbose=False,
        )
        self.facts: Mapping[str, object] = {"version": llama_cpp.__version__}

    def answer(self, request: Request) -> Answer:
        """See `Program`. `Llama.generate` is what all its other ways of answering are built on."""
        llama, prompt = self._llama, list(request.prompt_tokens)
        llama.reset()  # type: ignore[no-untyped-call]
        llama.set_seed(request.seed)
        if self._lookup is not None:
            self._lookup.drafts.clear()
        is_end = llama_cpp.llama_vocab_is_eog
        vocabulary = llama_cpp.llama_model_get_vocab(llama.model)
        tokens: list[int] = []
        finish_reason = "length"
        first = start = time.perf_counter()
        for token in llama.generate(prompt, temp=request.temperature, top_k=0, top_p=1.0, min_p=0.0):
            tokens.append(token)
            if len(tokens) == 1:
                first = time.perf_counter()
            if is_end(vocabulary, token):
                finish_reason = "stop"
                break
            if len(tokens) == request.max_tokens:
                break
        end = time.perf_counter()
        drafts = self._lookup.drafts if self._lookup else []
        return Answer(
            text=llama.detokenize(tokens).decode("utf-8", "replace"),
            finish_reason=finish_reason,
            num_tokens=len(tokens),
            prompt_tokens=len(prompt),
            seconds=end - start,
            ttft_seconds=first - start,
            prompt_seconds=first - start,
            decode_tokens=len(tokens) - 1,
            decode_seconds=end - first,
            reused_prompt_tokens=0,
            num_draft_tokens=sum(size for _, size in drafts),
            num_accepted_tokens=count_accepted(drafts, len(prompt) + len(tokens)),
        )

    def close(self) -> None:
        """See `Program`."""
        self._llama.close()


if __name__ == "__main__":
    serve(LlamaCppPython)
