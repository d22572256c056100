"""What an engine is opened with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from homespec.errors import ConfigError
from homespec.planner.options import Prefer
from homespec.planner.prices import KvType

DEFAULT_CONTEXT_TOKENS = 4096
MIN_CONTEXT_TOKENS = 16
# The longest draft that the controller may choose: what is copied goes fastest in the widest decodes.
AUTO_DRAFT_LENGTH = 63
DEFAULT_MIN_CONFIDENCE = 0.4

DrafterName = Literal["ngram", "draft-model"]


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings of the models; those of a request are `RequestParams`.

    Attributes:
        target: name in the catalogue, or path to a GGUF file.
        draft: off, ngram, a draft model's name or path, or `ngram+NAME` to ask one after the other. `auto` is
            n-gram lookup, followed by the pair's draft model if it is on this machine and has room.
        corpus: text files that replies are expected to quote, and directories of such files, for n-gram
            lookup; the most useful first. See `corpus.find_corpus`.
        draft_length: tokens drafted per step, always; None measures what pays and chooses step by step.
        min_confidence: with a fixed length, a draft ends at a token of which the draft model is less sure.
        strict: draft only so far as decodes of several tokens were measured to give the very logits of
            decodes of one, so that a greedy text is the plain one to the last token.
        pin_control: choose by stored costs instead of the clock, and forget nothing into later runs, so that
            a run can be repeated exactly.
        calibrate: measure this machine when a model is used for the first time.
        context_tokens: None for the smaller of 4096 and what the model was trained on; `max` for the largest
            that fits into memory.
        prefer: whether a draft model may take context away.
        memory_bytes: plan for a machine with this much memory instead of this one's.
        force: load what was planned against.
        num_threads: for decodes of one token; None for what was measured to be fastest, or else the fast
            cores.
        num_batch_threads: for decodes of several; None for what was measured, or `num_threads` where given.
        kv_type: of the target's KV cache.
        mmap: map the weights instead of reading them.
        repack: let llama.cpp keep weights in the layout its kernels like best.
    """

    target: str
    draft: str = "auto"
    corpus: tuple[str | Path, ...] = ()
    draft_length: int | None = None
    min_confidence: float = DEFAULT_MIN_CONFIDENCE
    strict: bool = False
    pin_control: bool = False
    calibrate: bool = True
    context_tokens: int | Literal["max"] | None = None
    prefer: Prefer = "context"
    memory_bytes: int | None = None
    force: bool = False
    num_threads: int | None = None
    num_batch_threads: int | None = None
    kv_type: KvType = "f16"
    mmap: bool = True
    repack: bool = True

    @property
    def longest_draft(self) -> int:
        """The most tokens that a step may draft."""
        return AUTO_DRAFT_LENGTH if self.draft_length is None else self.draft_length

    def check(self) -> None:
        """Refuses values that cannot be used whatever the model.

        Raises:
            ConfigError: names the option.
        """
        if self.kv_type not in get_args(KvType):
            kinds = ", ".join(get_args(KvType))
            raise ConfigError(f"{self.kv_type!r} is not a type of KV cache.", hint=f"Choose one of {kinds}.")
        if not 0 <= self.longest_draft <= AUTO_DRAFT_LENGTH:
            raise ConfigError(
                f"The draft length is {self.draft_length}; it must lie between 0 and {AUTO_DRAFT_LENGTH}.",
                hint="Pass --draft-length 5, or --draft off to decode plainly.",
            )
        if not 0 <= self.min_confidence <= 1:
            raise ConfigError(
                f"The least confidence is {self.min_confidence}; it must lie between 0 and 1.",
                hint="Pass --draft-min-confidence 0.4, or 0 to always draft the full length.",
            )
        for option, value in (("--threads", self.num_threads), ("--threads-batch", self.num_batch_threads)):
            if value is not None and value < 1:
                raise ConfigError(
                    f"{option} is {value}; at least 1 thread is needed.", hint=f"Leave {option} out."
                )


@dataclass(frozen=True, slots=True)
class FixedDraft:
    """How one request is drafted, whatever the engine would choose: for measurements.

    Attributes:
        drafters: asked in this order until one proposes something; none decodes plainly.
        length: tokens drafted per step.
        min_confidence: a draft ends at a token of which the drafter is less sure.
    """

    drafters: tuple[DrafterName, ...] = ()
    length: int = 0
    min_confidence: float = DEFAULT_MIN_CONFIDENCE
