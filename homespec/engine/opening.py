"""Settings -> opened models, and whether to speculate."""

from __future__ import annotations

from dataclasses import dataclass, field

from homespec.catalog.gguf_header import GgufHeader, read_header
from homespec.catalog.store import ResolvedModel, resolve
from homespec.catalog.vocabulary import check_vocabularies
from homespec.engine.settings import (
    DEFAULT_CONTEXT_TOKENS,
    MAX_DRAFT_LENGTH,
    MIN_CONTEXT_TOKENS,
    EngineSettings,
)
from homespec.errors import ConfigError, VocabMismatchError
from homespec.records import PlanSummary, ReasonCode
from homespec.runtime.binding import KV_TYPES, AbortFlag
from homespec.runtime.context import LlamaContext
from homespec.runtime.model import LlamaModel
from homespec.runtime.threads import choose_threads

NGRAM = "ngram"


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
        links: the drafters to ask in order: `ngram`, or an opened draft model; empty for plain decoding.
        num_shared_tokens: how many token ids every draft model shares with the target.
        plan: whether to speculate, and why.
    """

    target: OpenedModel
    plan: PlanSummary
    links: list[str | OpenedModel] = field(default_factory=list)
    num_shared_tokens: int | None = None

    def close(self) -> None:
        """Frees every model."""
        for link in self.links:
            if isinstance(link, OpenedModel):
                link.close()
        self.links.clear()
        self.target.close()


def open_models(settings: EngineSettings, abort: AbortFlag) -> Opened:
    """Opens the target, decides about speculation, opens the draft model.

    Args:
        settings: checked here.
        abort: stops decodes of all models.

    Raises:
        ConfigError: a setting cannot be used.
        ModelError: a model is missing or cannot be opened.
        MemoryBudgetError: a context could not be allocated.
    """
    _check(settings)
    found = resolve(settings.target)
    header = read_header(found.path)
    names = _drafter_names(settings)
    # Before anything is loaded: a draft model that is missing or damaged is told at once.
    drafts = {name: resolve(name) for name in names if name != NGRAM}
    headers = {name: read_header(draft.path) for name, draft in drafts.items()}
    target = _open(found, settings, None, settings.draft_length + 1, abort)
    try:
        return _with_drafters(settings, target, header, names, drafts, headers, abort)
    except BaseException:
        target.close()
        raise


def _check(settings: EngineSettings) -> None:
    if settings.kv_type not in KV_TYPES:
        raise ConfigError(
            f"{settings.kv_type!r} is not a type of KV cache.", hint=f"Choose one of {', '.join(KV_TYPES)}."
        )
    if not 0 <= settings.draft_length <= MAX_DRAFT_LENGTH:
        raise ConfigError(
            f"The draft length is {settings.draft_length}; it must lie between 0 and {MAX_DRAFT_LENGTH}.",
            hint="Pass --draft-length 5, or --draft off to decode plainly.",
        )
    if not 0 <= settings.min_confidence <= 1:
        raise ConfigError(
            f"The least confidence is {settings.min_confidence}; it must lie between 0 and 1.",
            hint="Pass --draft-min-confidence 0.4, or 0 to always draft the full length.",
        )
    for option, value in (
        ("--threads", settings.num_threads),
        ("--threads-batch", settings.num_batch_threads),
    ):
        if value is not None and value < 1:
            raise ConfigError(
                f"{option} is {value}; at least 1 thread is needed.", hint=f"Leave {option} out."
            )


def _drafter_names(settings: EngineSettings) -> list[str]:
    if settings.draft == "off" or settings.draft_length == 0:
        return []
    return [NGRAM if name == "auto" else name for name in settings.draft.split("+")]


def _context_tokens(settings: EngineSettings, model: LlamaModel) -> int:
    trained = model.trained_context_tokens
    wanted = settings.context_tokens
    if wanted is None:
        return min(DEFAULT_CONTEXT_TOKENS, trained)
    if not MIN_CONTEXT_TOKENS <= wanted <= trained:
        raise ConfigError(
            f"A context of {wanted:,} tokens was asked for; {model.path.name} was trained on {trained:,}, "
            f"and {MIN_CONTEXT_TOKENS} are needed at least.",
            hint=f"Pass --context-tokens with a number from {MIN_CONTEXT_TOKENS} to {trained}.",
        )
    return wanted


def _open(
    found: ResolvedModel,
    settings: EngineSettings,
    context_tokens: int | None,
    max_rows: int,
    abort: AbortFlag,
) -> OpenedModel:
    """Opens a model; `context_tokens` None takes the size from the settings."""
    threads = settings.num_threads or choose_threads().num_threads
    model = LlamaModel(found.path, mmap=settings.mmap, repack=settings.repack)
    try:
        context = LlamaContext(
            model,
            context_tokens=context_tokens or _context_tokens(settings, model),
            max_rows=max_rows,
            num_threads=threads,
            num_batch_threads=settings.num_batch_threads,
            kv_type=settings.kv_type,
            abort=abort,
        )
    except BaseException:
        model.close()
        raise
    return OpenedModel(found.name, model, context)


def _with_drafters(
    settings: EngineSettings,
    target: OpenedModel,
    header: GgufHeader,
    names: list[str],
    drafts: dict[str, ResolvedModel],
    headers: dict[str, GgufHeader],
    abort: AbortFlag,
) -> Opened:
    opened = Opened(target, _plan(settings, target, "on", f"drafts by {' then '.join(names)}"))
    if not names:
        opened.plan = _plan(settings, target, "off_by_user", "speculation was switched off")
        return opened
    if not target.context.can_truncate():
        why = f"{target.name} keeps a running state that cannot be rolled back"
        opened.plan = _plan(settings, target, "cannot_roll_back", why)
        return opened
    try:
        shared = [check_vocabularies(header, draft) for draft in headers.values()]
    except VocabMismatchError as error:
        opened.plan = _plan(settings, target, "vocabulary_mismatch", error.message)
        return opened
    opened.num_shared_tokens = min(shared, default=None)
    try:
        for name in names:
            opened.links.append(
                NGRAM
                if name == NGRAM
                else _open(drafts[name], settings, target.context.context_tokens, 1, abort)
            )
    except BaseException:
        opened.close()
        raise
    return opened


def _plan(settings: EngineSettings, target: OpenedModel, reason: ReasonCode, explanation: str) -> PlanSummary:
    on = reason == "on"
    return PlanSummary(
        speculation=on,
        reason=reason,
        explanation=explanation,
        context_tokens=target.context.context_tokens,
        draft_length=settings.draft_length if on else 0,
    )
