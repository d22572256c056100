"""Reduces a draft model for a target, as asked for or by a search, and tells what a draft model is worth."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from pathlib import Path

from homespec.calibration.costs import DrafterCosts
from homespec.calibration.fingerprint import model_identity
from homespec.catalog.entries import ModelEntry
from homespec.catalog.facts import ModelFacts, model_facts
from homespec.catalog.gguf_header import read_header
from homespec.catalog.store import ResolvedModel, draft_model, model_path, models_directory, resolve
from homespec.engine.diet.judging import Finding, Judge, score
from homespec.engine.diet.passages import Passage
from homespec.engine.diet.survey import Job, Survey, Worth, make_survey
from homespec.engine.diet.workshop import Workshop
from homespec.engine.making import check_name, enter, made_name
from homespec.errors import ConfigError
from homespec.reduce.agreement import Sample
from homespec.reduce.layer_search import greedy_search
from homespec.reduce.layers import evenly_spaced
from homespec.reduce.search import Recipe, Score, Search, Space
from homespec.reduce.trial import LayerTrial
from homespec.runtime.atomic import written_whole
from homespec.runtime.state import state_directory
from homespec.runtime.threads import choose_threads

# The formats that llama.cpp has fast CPU kernels for, and few bits.
TYPES = ("Q4_0", "IQ4_NL", "Q4_1", "Q8_0")
_VOCABULARIES = (65_536, 49_152, 32_768, 24_576, 16_384, 8_192)
_FIRST_TOKENS = 32_768
_LAYER_SHARES = (7 / 8, 3 / 4, 1 / 2)
# The search for layers may take this part of the time, and reads about so many tokens for each model that it
# tries: some five replies, enough to see which layer is missed, at a few seconds a model.
_LAYERS_SHARE = 0.4
_LAYERS_TEXT_TOKENS = 800
# Formats that cost so much more than the fastest are not looked into: they propose nearly the same.
_MUCH_SLOWER = 1.1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of reducing.

    Attributes:
        worth: of everything that was tried, the original first.
        chosen: the best of what could be made, or what was wanted: a key of `worth.findings`.
        entry: of it in the catalogue; None where nothing was made, since `rival` is as good.
        rival: the best draft model that there was before.
        is_better: whether the chosen one is better than that.
        is_default: it drafts for the target from now on.
        slower: number formats that were not looked into, with their costs.
        impossible: what could not be made, and why.
    """

    worth: Worth
    chosen: str
    entry: ModelEntry | None
    rival: str
    is_better: bool
    is_default: bool
    slower: dict[str, DrafterCosts]
    impossible: tuple[str, ...]


def evaluate(job: Job) -> Worth:
    """What a draft model is worth for a target, beside the one that would draft for it otherwise.

    Raises:
        HomespecError: a model is missing, damaged, or does not fit to the other.
        DecodeAbortedError: stopped on request.
    """
    target, draft = resolve(job.target), resolve(job.draft)
    original = _usual_draft(target) or draft
    survey = make_survey(job, draft, count=False)
    judge = survey.judge(original.path)
    findings = {original.name: judge.original_finding()}
    if original.path != draft.path:
        job.tell(f"trying {draft.name}", 0.5)
        findings[draft.name] = judge.judge(_key(draft.name, draft.path), draft.path)
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
    facts = model_facts(read_header(draft.path))
    _check(wanted, num_layers, facts)
    if output is not None:
        check_name(made_name(output.stem), output, draft)
    survey = make_survey(job, draft, count=True)
    directory = models_directory() / ".reducing"
    with Workshop.opened(draft.path, directory, survey.counts, job.heed) as shop:
        trials = _Trials(job, survey, survey.judge(draft.path), shop, facts, target.path.samefile(draft.path))
        trials.judge(Recipe())
        if num_layers is not None:
            layers = trials.best_layers(num_layers)
            wanted = Recipe(wanted.type_name, wanted.num_tokens, layers) if wanted else Recipe(layers=layers)
        chosen = wanted or trials.search()
        chosen_score = trials.judge(chosen)
        rival, rival_score = trials.rival(target)
        is_better = chosen_score.beats(rival_score)
        entry, drafts_for = None, None
        if is_better or wanted is not None:
            # A file that the catalogue does not know cannot have a drafter of its own there.
            drafts_for = target.name if is_better and target.entry else None
            path = shop.make(chosen)
            entry = _keep(path, chosen, draft, drafts_for, facts.num_layers, output)
    return Outcome(
        worth=survey.worth(trials.judges, trials.named()),
        chosen=chosen.describe(facts.num_layers),
        entry=entry,
        rival=rival,
        is_better=is_better,
        is_default=drafts_for is not None,
        slower=trials.slower,
        impossible=tuple(trials.impossible),
    )


@dataclass(slots=True)
class _Trials:
    """Recipes that become files and are judged; the original first, which the others are scored against.

    Attributes:
        job, survey, judges, shop, facts: of the draft model.
        of_itself: it is the target.
        findings: about recipes.
        others: about draft models that were there before.
        slower, impossible: see `Outcome`.
    """

    job: Job
    survey: Survey
    judges: Judge
    shop: Workshop
    facts: ModelFacts
    of_itself: bool
    findings: dict[Recipe, Finding] = field(default_factory=dict)
    others: dict[str, Finding] = field(default_factory=dict)
    slower: dict[str, DrafterCosts] = field(default_factory=dict)
    impossible: list[str] = field(default_factory=list)
    _longest_seconds: float = 0.0

    def search(self) -> Recipe:
        """The best recipe that is found in the time."""
        search = Search(self._try, self._has_time)
        sizes = tuple(number for number in _VOCABULARIES if number < 0.9 * self.facts.vocab_size)
        first = next((at for at, number in enumerate(sizes) if number <= _FIRST_TOKENS), 0)
        depths = [int(share * self.facts.num_layers) for share in _LAYER_SHARES]
        layers = [evenly_spaced(self.facts.num_layers, number) for number in depths if number > 1]
        return search.run(Space(self._fast_types(), sizes, first, layers))

    def judge(self, recipe: Recipe) -> Score:
        """What a recipe is worth.

        Raises:
            ConfigError: it cannot be made.
        """
        self.job.heed()
        start = self.job.elapsed()
        if recipe not in self.findings:
            self._tell(f"trying {self._name(recipe)}")
            self.findings[recipe] = self._finding(recipe)
            self._longest_seconds = max(self._longest_seconds, self.job.elapsed() - start)
        return self._score(self.findings[recipe])

    def rival(self, target: ResolvedModel) -> tuple[str, Score]:
        """The best of what there is already: the original, and what drafts for the target now."""
        best = self._name(Recipe()), self.judge(Recipe())
        name = draft_model(target.entry)
        if name is not None and not model_path(name).samefile(self.shop.original):
            self._tell(f"trying {name}")
            self.others[name] = found = self.judges.judge(_key(name, model_path(name)), model_path(name))
            if self._score(found).beats(best[1]):
                best = name, self._score(found)
        return best

    def named(self) -> dict[str, Finding]:
        """All findings for people, the original's first."""
        return {self._name(recipe): found for recipe, found in self.findings.items()} | self.others

    def best_layers(self, num_layers: int) -> tuple[int, ...]:
        """The layers whose loss is missed least, as far as there is time to look."""
        self._tell("looking for the layers that are missed least")
        counted = [passage for passage in self.survey.bench.passages if passage.counted]
        sizes = accumulate((len(passage.tokens) for passage in counted), initial=0)
        small = [
            passage for passage, before in zip(counted, sizes, strict=False) if before < _LAYERS_TEXT_TOKENS
        ]
        trial = LayerTrial(
            self.shop.original,
            [_sample(passage) for passage in small],
            self.shop.directory / "layers.tmp",
            num_threads=choose_threads().num_threads,
            abort=self.job.abort,
        )
        depth = self.facts.num_layers
        result = greedy_search(
            depth,
            num_layers,
            trial,
            budget_seconds=_LAYERS_SHARE * self.job.seconds,
            state=state_directory() / "layers" / f"{trial.identity[:24]}.json",
            identity=trial.identity,
            on_evaluated=lambda kept, found: self._tell(
                f"{len(kept)} of {depth} layers agree in {found:.0%}"
            ),
        )
        return result.kept

    def _fast_types(self) -> list[str]:
        """The number formats that cost least here."""
        costs: dict[str, DrafterCosts] = {}
        for name in TYPES:
            self.job.heed()
            self._tell(f"measuring {name}")
            recipe = Recipe(name)
            try:
                costs[name] = self.judges.measure(self._key(recipe), self.shop.make(recipe))
            except ConfigError as error:
                self.impossible.append(f"{name}: {error.message}")
        fastest = min((cost.seconds_per_token for cost in costs.values()), default=0.0)
        self.slower = {
            name: cost for name, cost in costs.items() if cost.seconds_per_token > _MUCH_SLOWER * fastest
        }
        fast = [name for name in costs if name not in self.slower]
        self.shop.tidy(map(Recipe, fast))
        return fast

    def _try(self, recipe: Recipe) -> Score:
        try:
            return self.judge(recipe)
        except ConfigError as error:
            self.impossible.append(f"{self._name(recipe)}: {error.message}")
            return Score(0.0, 0.0, 0.0, fits=False)

    def _has_time(self) -> bool:
        return self.job.elapsed() + self._longest_seconds < self.job.seconds

    def _finding(self, recipe: Recipe) -> Finding:
        if recipe.is_original:
            return self.judges.original_finding()
        key = self._key(recipe)
        return self.judges.recall(key) or self.judges.judge(key, self.shop.make(recipe))

    def _score(self, found: Finding) -> Score:
        return score(found, self.findings[Recipe()], of_itself=self.of_itself)

    def _key(self, recipe: Recipe) -> str:
        return repr(asdict(recipe)) + (self.survey.counts_digest if recipe.num_tokens else "")

    def _name(self, recipe: Recipe) -> str:
        return recipe.describe(self.facts.num_layers)

    def _tell(self, what: str) -> None:
        self.job.tell(what, min(1.0, self.job.elapsed() / self.job.seconds))


def _check(wanted: Recipe | None, num_layers: int | None, facts: ModelFacts) -> None:
    """Finds what cannot be had before the target is asked for minutes of replies.

    Raises:
        ConfigError: there are fewer tokens or layers.
    """
    num_tokens = wanted.num_tokens if wanted else None
    for option, number, most in (
        ("--vocab", num_tokens, facts.vocab_size - 1),
        ("--layers", num_layers, facts.num_layers),
    ):
        if number is not None and not 1 <= number <= most:
            raise ConfigError(
                f"{option} is {number:,}; {facts.name} allows 1 to {most:,}.", hint=f"Pass another {option}."
            )


def _key(name: str, path: Path) -> str:
    return f"{name} {model_identity(path)}"


def _sample(passage: Passage) -> Sample:
    start = passage.num_prompt_tokens
    return Sample(passage.tokens[:start], passage.tokens[start:])


def _usual_draft(target: ResolvedModel) -> ResolvedModel | None:
    """The draft model that was published for a target, if it is there."""
    pair = target.entry.pair if target.entry else None
    return resolve(pair) if pair and model_path(pair).is_file() else None


def _keep(
    made: Path,
    recipe: Recipe,
    draft: ResolvedModel,
    drafts_for: str | None,
    depth: int,
    output: Path | None,
) -> ModelEntry:
    """Moves the file to its place, and registers it."""
    parts = [recipe.type_name or ""]
    if recipe.num_tokens is not None:
        parts.append(f"{recipe.num_tokens // 1024}k" if recipe.num_tokens >= 1024 else f"{recipe.num_tokens}")
    if recipe.layers is not None:
        parts.append(f"{len(recipe.layers)}-layers")
    name = made_name(output.stem if output else "-".join(filter(None, [draft.name, *parts])))
    path = output or model_path(name)
    check_name(name, path, draft)
    with written_whole(path) as part:
        shutil.move(made, part)
    return enter(name, path, draft, role="draft", recipe=recipe.describe(depth), drafts_for=drafts_for)
