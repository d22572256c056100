"""Reduces a draft model for a target, as asked for or by a search, and tells what a draft model is worth."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from homespec.calibration.curve import CostCurve
from homespec.calibration.fingerprint import model_identity
from homespec.catalog.entries import ModelEntry
from homespec.catalog.facts import model_facts
from homespec.catalog.gguf_header import GgufHeader, read_header
from homespec.catalog.store import ResolvedModel, model_path, models_directory, resolve
from homespec.catalog.vocabulary import check_vocabularies
from homespec.engine.calibrating import stored_calibrations
from homespec.engine.diet.counting import count_useful
from homespec.engine.diet.judging import Finding, Judge, score
from homespec.engine.diet.passages import Passage, Prompt, collect
from homespec.engine.diet.replay import Expectation
from homespec.engine.diet.trial import Bench
from homespec.engine.diet.workshop import Workshop
from homespec.engine.engine import Engine
from homespec.engine.making import check_name, enter, made_name
from homespec.engine.preparing import NGRAM
from homespec.engine.settings import EngineSettings
from homespec.errors import ConfigError, DecodeAbortedError
from homespec.reduce.agreement import Sample
from homespec.reduce.layer_search import greedy_search
from homespec.reduce.layers import evenly_spaced
from homespec.reduce.search import Recipe, Score, Search, Space
from homespec.reduce.trial import LayerTrial
from homespec.runtime.binding import AbortFlag
from homespec.runtime.state import state_directory
from homespec.runtime.threads import choose_threads

# The formats that llama.cpp has fast CPU kernels for, and few bits.
TYPES = ("Q4_0", "IQ4_NL", "Q4_1", "Q8_0")
_VOCABULARIES = (65_536, 49_152, 32_768, 24_576, 16_384, 8_192)
_FIRST_TOKENS = 32_768
_LAYER_SHARES = (7 / 8, 3 / 4, 1 / 2)
# The target's replies may take this part of the time, the search for layers that of it.
_REPLIES_SHARE, _LAYERS_SHARE = 0.4, 0.4


@dataclass(slots=True)
class Job:
    """What to look into.

    Attributes:
        target: name or path.
        draft: name or path of the draft model; the target's own for self-speculation.
        prompts: that the target answers, see `passages.in_turn`.
        seconds: that it may take, about.
        memory_bytes: plan for a machine with this much memory; None for this one.
        texts: of the user, on which useful tokens are counted.
        abort: stops everything.
        tell: told what is being done, and the share of it.
    """

    target: str
    draft: str
    prompts: Sequence[Prompt]
    seconds: float
    memory_bytes: int | None = None
    texts: Sequence[str] = ()
    abort: AbortFlag = field(default_factory=AbortFlag)
    tell: Callable[[str, float], None] = lambda what, share: None
    _start: float = field(default_factory=perf_counter)

    def elapsed(self) -> float:
        """Seconds since it began."""
        return perf_counter() - self._start

    def heed(self) -> None:
        """Stops where that was asked for.

        Raises:
            DecodeAbortedError: it was.
        """
        if self.abort.is_set:
            raise DecodeAbortedError("Reducing was stopped.")


@dataclass(frozen=True, slots=True)
class Worth:
    """What draft models are worth for a target.

    Attributes:
        findings: name -> about it; the first is the one that the others are compared with.
        lookup: what the controller expects without a draft model.
        plain_seconds: of a plain step of the target.
        num_replies: by which they were judged.
    """

    findings: dict[str, Finding]
    lookup: Expectation
    plain_seconds: float
    num_replies: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of reducing.

    Attributes:
        worth: of everything that was tried, the original first.
        chosen: key of the one that was kept, in `worth.findings`.
        entry: of it in the catalogue; None where the original is the best.
        is_default: it drafts for the target from now on.
    """

    worth: Worth
    chosen: str
    entry: ModelEntry | None
    is_default: bool


@dataclass(frozen=True, slots=True)
class _Survey:
    """The target, looked into once.

    Attributes:
        settings: it was opened with.
        bench: with its replies.
        curve: of its decodes.
        counts: of its tokens; empty where nobody asked.
    """

    settings: EngineSettings
    bench: Bench
    curve: CostCurve
    counts: Counter[int]

    def judge(self, original: Path) -> Judge:
        """Judges draft models beside one; what it finds is kept for the same replies."""
        names = (model_identity(self.bench.target.path), model_identity(original), repr(self.bench.passages))
        digest = hashlib.sha256(" ".join(names).encode()).hexdigest()
        memory = state_directory() / "drafters" / f"{digest[:24]}.json"
        return Judge(self.bench, self.curve, original, self.settings, memory)

    def worth(self, judge: Judge, findings: dict[str, Finding]) -> Worth:
        """What was found, for people."""
        num_replies = sum(not passage.counted for passage in self.bench.passages)
        plain_seconds = self.curve.seconds(1, self.curve.depths_tokens[0])
        return Worth(findings, judge.lookup_alone(), plain_seconds, num_replies)


def evaluate(job: Job) -> Worth:
    """What a draft model is worth for a target, beside the one that would draft for it otherwise.

    Raises:
        HomespecError: a model is missing, damaged, or does not fit to the other.
        DecodeAbortedError: stopped on request.
    """
    target, draft = resolve(job.target), resolve(job.draft)
    original = _usual_draft(target) or draft
    survey = _survey(job, draft, count=False)
    judge = survey.judge(original.path)
    findings = {original.name: judge.original_finding()}
    if original.path != draft.path:
        job.tell(f"trying {draft.name}", 0.5)
        findings[draft.name] = judge.judge(draft.name + model_identity(draft.path)[:16], draft.path)
    return survey.worth(judge, findings)


def reduce_draft(job: Job, wanted: Recipe | None, num_layers: int | None, output: Path | None) -> Outcome:
    """Makes a smaller draft model, registers it, and makes it the target's drafter if it is the better one.

    Args:
        job: what to look into.
        wanted: how to make it; None to search for what is fastest.
        num_layers: how many of the original's layers to keep, the best ones; None for what `wanted` says.
        output: where the file is to lie; None for the models directory.

    Raises:
        HomespecError: a model is missing or damaged, cannot be reduced, or there is no room.
        DecodeAbortedError: stopped on request; what was found so far is used the next time.
    """
    target, draft = resolve(job.target), resolve(job.draft)
    header = read_header(draft.path)
    survey = _survey(job, draft, count=True)
    judge = survey.judge(draft.path)
    shop = Workshop(draft.path, models_directory() / ".reducing", survey.counts, job.heed)
    shop.directory.mkdir(parents=True, exist_ok=True)
    depth = model_facts(header).num_layers
    findings: dict[Recipe, Finding] = {Recipe(): judge.original_finding()}
    of_itself = target.path == draft.path

    def value(recipe: Recipe) -> Score:
        job.heed()
        name = recipe.describe(depth)
        job.tell(f"trying {name}", min(1.0, job.elapsed() / job.seconds))
        if recipe not in findings:
            findings[recipe] = judge.judge(f"{name} {recipe.layers}", shop.make(recipe))
        return score(findings[recipe], findings[Recipe()], of_itself=of_itself)

    if num_layers is not None:
        job.tell("looking for the layers that are missed least", 0.0)
        layers = _best_layers(job, draft, survey.bench.passages, depth, num_layers)
        wanted = Recipe(wanted.type_name, wanted.num_tokens, layers) if wanted else Recipe(layers=layers)
    if wanted is None:
        pace = [0.0, job.elapsed()]

        def has_time() -> bool:
            # The next trial takes about as long as the last one.
            pace[:] = pace[1], job.elapsed()
            return job.elapsed() + (pace[1] - pace[0]) < job.seconds

        chosen = Search(value, has_time).run(_space(header, depth))
        is_better = not chosen.is_original
    else:
        chosen = wanted
        is_better = value(chosen).beats(value(Recipe()))
    entry = None
    if not chosen.is_original:
        entry = _keep(shop.make(chosen), chosen, draft, target if is_better else None, depth, output)
    shop.tidy(())
    named = {recipe.describe(depth): finding for recipe, finding in findings.items()}
    return Outcome(survey.worth(judge, named), chosen.describe(depth), entry, is_better and entry is not None)


def _survey(job: Job, draft: ResolvedModel, *, count: bool) -> _Survey:
    settings = EngineSettings(job.target, NGRAM, memory_bytes=job.memory_bytes)
    job.tell("opening the target", 0.0)
    with Engine(settings, abort=job.abort) as engine:
        header = engine.preparation.target.header
        check_vocabularies(header, read_header(draft.path))
        calibration = stored_calibrations(engine.preparation)[0]
        if calibration is None or calibration.target is None:
            raise ConfigError(
                f"What decodes of {job.target} cost is not known: {engine.plan.explanation}",
                hint=f"Run homespec calibrate {job.target} first.",
            )
        passages = collect(
            engine,
            job.prompts,
            lambda: job.elapsed() < _REPLIES_SHARE * job.seconds,
            lambda share: job.tell("having the target reply", share),
        )
        if {passage.counted for passage in passages} != {True, False}:
            raise ConfigError(
                "The target's replies are too few or too short to judge a draft model by.",
                hint='Give more prompts: --prompts FILE.jsonl with one {"prompt": ...} a line.',
            )
        bench = Bench(header, passages, job.abort)
        counts: Counter[int] = Counter()
        if count:
            job.tell("counting tokens", 0.0)
            counts = count_useful(bench, draft.path, job.texts, engine.vocabulary.tokenize)
    return _Survey(settings, bench, calibration.target.curve, counts)


def _usual_draft(target: ResolvedModel) -> ResolvedModel | None:
    """The draft model that was published for a target, if it is there."""
    pair = target.entry.pair if target.entry else None
    return resolve(pair) if pair and model_path(pair).is_file() else None


def _space(header: GgufHeader, depth: int) -> Space:
    tokens = header.array("tokenizer.ggml.tokens")
    size = tokens.num_elements if tokens else 0
    vocabularies = tuple(number for number in _VOCABULARIES if number < 0.9 * size)
    first = next((at for at, number in enumerate(vocabularies) if number <= _FIRST_TOKENS), 0)
    kept = [int(share * depth) for share in _LAYER_SHARES]
    return Space(TYPES, vocabularies, first, [evenly_spaced(depth, number) for number in kept if number > 1])


def _best_layers(
    job: Job, draft: ResolvedModel, passages: Sequence[Passage], depth: int, num_layers: int
) -> tuple[int, ...]:
    samples = [
        Sample(passage.tokens[: passage.num_prompt_tokens], passage.tokens[passage.num_prompt_tokens :])
        for passage in passages
        if passage.counted
    ]
    scratch = models_directory() / ".reducing" / "layers.tmp"
    trial = LayerTrial(
        draft.path, samples, scratch, num_threads=choose_threads().num_threads, abort=job.abort
    )
    try:
        result = greedy_search(
            depth,
            num_layers,
            trial,
            budget_seconds=_LAYERS_SHARE * job.seconds,
            state=state_directory() / "layers" / f"{trial.identity[:24]}.json",
            identity=trial.identity,
            on_evaluated=lambda kept, found: job.tell(
                f"{len(kept)} of {depth} layers agree in {found:.0%}", job.elapsed() / job.seconds
            ),
        )
    finally:
        scratch.unlink(missing_ok=True)
    return result.kept


def _keep(
    made: Path,
    recipe: Recipe,
    draft: ResolvedModel,
    target: ResolvedModel | None,
    depth: int,
    output: Path | None,
) -> ModelEntry:
    """Moves the file to its place, and registers it."""
    parts = [recipe.type_name, f"{recipe.num_tokens // 1024}k" if recipe.num_tokens else None]
    parts += [f"{len(recipe.layers)}-layers"] if recipe.layers else []
    name = made_name(output.stem if output else "-".join([draft.name, *filter(None, parts)]))
    path = output or model_path(name)
    check_name(name, path, draft)
    path.parent.mkdir(parents=True, exist_ok=True)
    # On another disk this copies, and a copy that is broken off must not look like a model.
    beside = path.with_name(f"{path.name}.part")
    shutil.move(made, beside)
    beside.replace(path)
    text = recipe.describe(depth)
    return enter(name, path, draft, role="draft", recipe=text, drafts_for=target.name if target else None)
