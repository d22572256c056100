"""What an engine is opened with."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_CONTEXT_TOKENS = 4096
MIN_CONTEXT_TOKENS = 16
DEFAULT_DRAFT_LENGTH = 5
# No cost curve that was measured pays for more.
MAX_DRAFT_LENGTH = 32
DEFAULT_MIN_CONFIDENCE = 0.4


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings of the models; those of a request are `RequestParams`.

    Attributes:
        target: name in the catalogue, or path to a GGUF file.
        draft: auto, off, ngram, or a draft model's name or path; several joined by `+` are asked in order.
        draft_length: the most tokens that are drafted per step.
        min_confidence: a draft ends at a token of which the draft model is less sure than this.
        context_tokens: None for the smaller of 4096 and what the model was trained on.
        num_threads: for decodes of one token; None to choose.
        num_batch_threads: for decodes of several; None for the same.
        kv_type: of the target's KV cache: f16, q8_0 or q4_0.
        mmap: map the weights instead of reading them.
        repack: let llama.cpp keep weights in the layout its kernels like best.
    """

    target: str
    draft: str = "auto"
    draft_length: int = DEFAULT_DRAFT_LENGTH
    min_confidence: float = DEFAULT_MIN_CONFIDENCE
    context_tokens: int | None = None
    num_threads: int | None = None
    num_batch_threads: int | None = None
    kv_type: str = "f16"
    mmap: bool = True
    repack: bool = True
