"""A preparation -> opened models."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from homespec.calibration.fingerprint import fingerprint
from homespec.calibration.threads import Threads, chosen_threads
from homespec.catalog.trimmed import read_trim
from homespec.engine.preparing import Candidate, Preparation
from homespec.errors import MemoryBudgetError
from homespec.planner.prices import KvType
from homespec.records import PlanSummary
from homespec.runtime.binding import AbortFlag
from homespec.runtime.context import LlamaContext
from homespec.runtime.model import LlamaModel
from homespec.units import format_bytes

if TYPE_CHECKING:
    from homespec.runtime.trimmed import TrimmedVocabulary

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class OpenedModel:
    """A model with its KV cache."""

    name: str
    model: LlamaModel
    context: LlamaContext

    def close(self) -> None:
        """Frees both."""
        self.context.close()
        self.model.close()


@dataclass(slots=True)
class Opened:
    """Everything that an engine runs on.

    Attributes:
        target: the target.
        plan: whether to speculate, and why.
        uses_ngram: whether n-gram lookup drafts, alone or before the draft model.
        draft: the draft model, if one is open.
    """

    target: OpenedModel
    plan: PlanSummary
    uses_ngram: bool = False
    draft: OpenedModel | None = None

    def close_draft(self) -> None:
        """Frees the draft model, if there is one."""
        if self.draft is not None:
            self.draft.close()
            self.draft = None

    def close(self) -> None:
        """Frees every model; safe to call twice."""
        self.close_draft()
        self.target.close()


def open_models(preparation: Preparation, abort: AbortFlag) -> Opened:
    """Opens the target and, where it was planned, the draft model.

    Args:
        preparation: what to open.
        abort: stops decodes of all models.

    Raises:
        MemoryBudgetError: the plan says that the target cannot run here, or a context could not be allocated.
        ModelFormatError: llama.cpp refuses a file.
    """
    _refuse_or_warn(preparation)
    option, draft = preparation.option, preparation.draft
    max_rows = preparation.settings.longest_draft + 1
    target = _open(
        preparation, preparation.target, option.context_tokens, preparation.settings.kv_type, max_rows, abort
    )
    opened = Opened(target, preparation.summary(), preparation.uses_ngram)
    try:
        # Asked in any case: the few tokens that it decodes also touch the buffers, for `truth`.
        can_roll_back = target.context.can_truncate()
        if not opened.plan.speculation:
            return opened
        if not can_roll_back:
            why = f"{target.name} cannot take tokens back, as a look at its cache showed."
            opened.plan = preparation.without_speculation("cannot_roll_back", why)
            opened.uses_ngram = False
        elif option.kind == "draft" and draft is not None:
            opened.draft = _open(
                preparation,
                draft,
                option.draft_context_tokens,
                option.draft_kv_type,
                1,
                abort,
                _trimmed_vocabulary(draft),
            )
            opened.draft.context.can_truncate()
    except BaseException:
        opened.close()
        raise
    return opened


def _refuse_or_warn(preparation: Preparation) -> None:
    plan, settings = preparation.plan, preparation.settings
    needed, headroom = preparation.option.price.needed_bytes, plan.headroom_bytes
    if preparation.option.fits:
        return
    numbers = f"{format_bytes(needed)} of memory are needed and {format_bytes(headroom)} can be had"
    if plan.verdict == "cannot_run" and not settings.force:
        raise MemoryBudgetError(
            f"{preparation.target.model.name} cannot run here: {numbers}.",
            hint=" Or: ".join([*plan.advice, "Pass --force to try all the same."]),
            needed_bytes=needed,
            available_bytes=headroom,
        )
    advice = " Or: ".join(plan.advice) or "Leave out --force to decode without a drafter."
    _logger.warning("Weights will be read from disk again and again: %s. %s", numbers, advice)


def adopt_threads(preparation: Preparation, opened: Opened) -> None:
    """Lets opened models run on as many threads as they would if they were opened now."""
    for candidate, model in ((preparation.target, opened.target), (preparation.draft, opened.draft)):
        if candidate is not None and model is not None:
            model.context.set_threads(*_threads(preparation, candidate))


def _threads(preparation: Preparation, candidate: Candidate) -> Threads:
    settings = preparation.settings
    return chosen_threads(fingerprint(candidate.model.path), settings.num_threads, settings.num_batch_threads)


def _trimmed_vocabulary(draft: Candidate) -> TrimmedVocabulary | None:
    """What lets a trimmed draft model speak the target's tokens; None for others."""
    layout = read_trim(draft.header)
    if layout is None:
        return None
    from homespec.runtime.trimmed import TrimmedVocabulary  # imports gguf, which takes a while

    return TrimmedVocabulary(layout)


def _open(
    preparation: Preparation,
    candidate: Candidate,
    context_tokens: int,
    kv_type: KvType,
    max_rows: int,
    abort: AbortFlag,
    trimmed: TrimmedVocabulary | None = None,
) -> OpenedModel:
    settings = preparation.settings
    threads = _threads(preparation, candidate)
    model = LlamaModel(candidate.model.path, mmap=settings.mmap, repack=settings.repack)
    try:
        context = LlamaContext(
            model,
            context_tokens=context_tokens,
            max_rows=max_rows,
            num_threads=threads.single,
            num_batch_threads=threads.batch,
            kv_type=kv_type,
            abort=abort,
            trimmed=trimmed,
        )
    except BaseException:
        model.close()
        raise
    return OpenedModel(candidate.model.name, model, context)
