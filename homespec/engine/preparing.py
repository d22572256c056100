"""Settings -> a plan, from the headers of the model files alone. Imports neither llama.cpp nor NumPy."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Literal

from homespec.catalog.facts import ModelFacts, model_facts
from homespec.catalog.gguf_header import GgufHeader, read_header
from homespec.catalog.store import ResolvedModel, draft_model, resolve
from homespec.catalog.vocabulary import check_vocabularies
from homespec.engine.corpus import CorpusFiles, find_corpus
from homespec.engine.settings import DEFAULT_CONTEXT_TOKENS, MIN_CONTEXT_TOKENS, EngineSettings
from homespec.errors import ConfigError, VocabMismatchError
from homespec.planner.options import Option, Policy, Pricing
from homespec.planner.plan import Plan, make_plan
from homespec.planner.prices import LoadOptions
from homespec.records import PlanSummary, ReasonCode
from homespec.runtime.cpuinfo import cpu_features
from homespec.telemetry.corrections import load_corrections
from homespec.telemetry.machine import MachineMemory, imagined_memory, read_memory

_logger = logging.getLogger(__name__)

NGRAM = "ngram"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that may be opened.

    Attributes:
        model: where it is.
        header: its file's header, checked.
        facts: what its memory prices follow from.
    """

    model: ResolvedModel
    header: GgufHeader
    facts: ModelFacts


@dataclass(frozen=True, slots=True)
class Preparation:
    """What is going to be opened, and why.

    Attributes:
        settings: what was asked for.
        target: the target.
        draft: the draft model that was considered, if any.
        num_shared_tokens: how many token ids it shares with the target.
        corpus: the texts for n-gram lookup, where that is wanted.
        memory: of the machine.
        policy: what was asked for, in the planner's words.
        plan: the memory plan.
        option: the way to run: the plan's choice, unless it was overridden by force.
        reason: why there is speculation or none; from the plan, or from an obstacle that has nothing to do
            with memory.
        explanation: the same in one sentence.
    """

    settings: EngineSettings
    target: Candidate
    draft: Candidate | None
    num_shared_tokens: int | None
    corpus: CorpusFiles
    memory: MachineMemory
    policy: Policy
    plan: Plan
    option: Option
    reason: ReasonCode
    explanation: str

    @property
    def uses_ngram(self) -> bool:
        """Whether n-gram lookup drafts, alone or before the draft model."""
        return self.option.kind == "ngram" or (self.option.kind == "draft" and _wants_ngram(self.settings))

    def summary(self) -> PlanSummary:
        """The `plan` object of `--json`."""
        on = self.reason == "on"
        return PlanSummary(
            speculation=on,
            reason=self.reason,
            explanation=self.explanation,
            context_tokens=self.option.context_tokens,
            draft_length=self.settings.longest_draft if on else 0,
            needed_bytes=self.option.price.needed_bytes,
            headroom_bytes=self.plan.headroom_bytes,
        )

    def option_with_batch(self, batch_tokens: int) -> Option:
        """What is opened, priced for decodes of at most this many tokens, with one row of logits."""
        load = replace(self.policy.load, batch_tokens=batch_tokens, num_rows=1)
        policy = replace(self.policy, load=load)
        draft = self.draft.facts if self.draft else None
        return Pricing(self.target.facts, draft, self.plan.headroom_bytes, policy).repriced(self.option)

    def without_speculation(self, reason: ReasonCode, explanation: str) -> PlanSummary:
        """The same, where something found later turned speculation off."""
        return replace(
            self.summary(), speculation=False, reason=reason, explanation=explanation, draft_length=0
        )


def prepare(settings: EngineSettings) -> Preparation:
    """Finds the models, reads their headers, and plans.

    Raises:
        ConfigError: a setting cannot be used.
        ModelError: a model is missing or damaged.
    """
    settings.check()
    corrections = load_corrections()
    target = _candidate(resolve(settings.target), corrections)
    context_tokens = _context_tokens(settings, target.facts)
    draft = _draft_candidate(settings, target, corrections)
    corpus = _corpus(settings)
    memory = read_memory() if settings.memory_bytes is None else imagined_memory(settings.memory_bytes)

    obstacle, num_shared_tokens = _obstacle(settings, target, draft)
    policy = Policy(
        context_tokens=context_tokens,
        kv_type=settings.kv_type,
        ngram=_wants_ngram(settings) and obstacle is None,
        corpus_bytes=corpus.index_bytes if obstacle is None else 0,
        fall_back=settings.draft == "auto",
        prefer=settings.prefer,
        load=LoadOptions(settings.mmap, settings.repack, cpu_features(), settings.longest_draft + 1),
    )
    draft_facts = draft.facts if draft and obstacle is None else None
    plan = make_plan(target.facts, draft_facts, memory.headroom_bytes(), policy)
    option = plan.chosen
    reason, explanation = obstacle or (plan.reason, plan.explanation)
    if settings.force and reason in ("would_page", "would_shrink_context"):
        wanted = "draft" if draft else NGRAM
        option = next(option for option in plan.options if option.kind == wanted)
        reason, explanation = "on", f"Forced against the plan: {plan.explanation}"
    return Preparation(
        settings, target, draft, num_shared_tokens, corpus, memory, policy, plan, option, reason, explanation
    )


def _candidate(model: ResolvedModel, corrections: dict[str, int]) -> Candidate:
    header = read_header(model.path)
    facts = model_facts(header)
    correction_bytes = corrections.get(facts.correction_key, 0)
    return Candidate(model, header, replace(facts, name=model.name, correction_bytes=correction_bytes))


def _wants_ngram(settings: EngineSettings) -> bool:
    return settings.draft in ("auto", NGRAM) or settings.draft.startswith(f"{NGRAM}+")


def _corpus(settings: EngineSettings) -> CorpusFiles:
    if settings.corpus and (settings.draft_length == 0 or not _wants_ngram(settings)):
        why = "--draft-length 0" if settings.draft_length == 0 else f"--draft {settings.draft}"
        _logger.warning("--corpus has no effect with %s: only n-gram lookup reads it.", why)
        return CorpusFiles()
    return find_corpus(settings.corpus)


def _draft_candidate(
    settings: EngineSettings, target: Candidate, corrections: dict[str, int]
) -> Candidate | None:
    if settings.draft_length == 0 or settings.draft in ("off", NGRAM):
        return None
    if settings.draft == "auto":
        pair = draft_model(target.model.entry)
        return _candidate(resolve(pair), corrections) if pair else None
    return _candidate(resolve(settings.draft.removeprefix(f"{NGRAM}+")), corrections)


def _context_tokens(settings: EngineSettings, facts: ModelFacts) -> int | Literal["max"]:
    wanted, trained = settings.context_tokens, facts.training_context_tokens
    if wanted == "max":
        return "max"
    if wanted is None:
        return min(DEFAULT_CONTEXT_TOKENS, trained or DEFAULT_CONTEXT_TOKENS)
    if wanted < MIN_CONTEXT_TOKENS or wanted > trained > 0:
        raise ConfigError(
            f"A context of {wanted:,} tokens was asked for; {facts.name} was trained on {trained:,}, "
            f"and {MIN_CONTEXT_TOKENS} are needed at least.",
            hint=f"Pass --context-tokens with a number from {MIN_CONTEXT_TOKENS} to {trained}.",
        )
    return wanted


def _obstacle(
    settings: EngineSettings, target: Candidate, draft: Candidate | None
) -> tuple[tuple[ReasonCode, str] | None, int | None]:
    """What stands against speculation whatever the memory, and how many token ids are shared."""
    if settings.draft == "off" or settings.draft_length == 0:
        return ("off_by_user", "Speculation was switched off."), None
    if target.facts.keeps_running_state:
        why = f"{target.model.name} keeps a running state that cannot be rolled back."
        return ("cannot_roll_back", why), None
    if draft is None:
        return None, None
    try:
        return None, check_vocabularies(target.header, draft.header)
    except VocabMismatchError as error:
        return ("vocabulary_mismatch", error.message), None
