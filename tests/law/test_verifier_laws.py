"""The promise "same law": every outcome of draft and verify is enumerated through the real code.

For each case all branches of chance are taken, in the picker as in the verifier. What a verify commits is
continued with exact target probabilities to a fixed length, and the distribution over whole continuations is
compared with the product of the target's conditionals, computed naively.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from homespec.contracts import Chance, Going, Verifier
from homespec.drafting.draft_model import DraftModelDrafter
from homespec.records import Draft, FloatArray, SamplingParams, TokenDistribution, Verdict
from homespec.runtime.trim_layout import TrimLayout
from homespec.runtime.trimmed import TrimmedVocabulary
from homespec.sampling import (
    BlockVerifier,
    GreedyPicker,
    Picker,
    Processors,
    RejectionVerifier,
    SampledPicker,
)
from homespec.sampling.distributions import probability, residual
from tests.support.branching_chance import BranchingChance, enumerate_outcomes
from tests.support.naive_sampling import naive_probs
from tests.support.table_model import Logits, TableModel

pytestmark = pytest.mark.law

TOLERANCE = 1e-9
# What a wrong law must differ by at least, so that the tests above it are seen to be able to fail.
VISIBLE = 1e-3
PREFIX = (2, 0, 1, 1)
PLAIN = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)

OPTIONS = {
    "plain": PLAIN,
    "temperature": SamplingParams(temperature=0.6, top_k=0, top_p=1.0, min_p=0.0),
    "top_k": SamplingParams(temperature=1.3, top_k=2, top_p=1.0, min_p=0.0),
    "top_p": SamplingParams(temperature=1.0, top_k=0, top_p=0.8, min_p=0.0),
    "min_p": SamplingParams(temperature=1.5, top_k=0, top_p=1.0, min_p=0.2),
    "all truncations": SamplingParams(temperature=1.4, top_k=3, top_p=0.95, min_p=0.1),
    "penalties": SamplingParams(
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        min_p=0.0,
        repeat_penalty=1.7,
        presence_penalty=0.4,
        frequency_penalty=0.3,
        penalty_window_tokens=3,
    ),
    "everything": SamplingParams(
        logit_bias=((0, 0.7), (1, -0.5)),
        repeat_penalty=0.8,
        presence_penalty=-0.3,
        frequency_penalty=0.5,
        penalty_window_tokens=0,
        temperature=1.2,
        top_k=3,
        top_p=0.97,
        min_p=0.02,
    ),
    "a ban": SamplingParams(logit_bias=((1, float("-inf")),), temperature=1.0, top_k=0, top_p=1.0, min_p=0.0),
}

MakeVerifier = Callable[[Processors, Chance], Verifier]
MakePicker = Callable[[Processors, Chance], Picker]
# Whether to end the draft before a token is drawn, from the confidence; and after, from its probability.
StopRule = Callable[[float], bool]


def never(_: float) -> bool:
    return False


def greedy_picker(processors: Processors, _: Chance) -> Picker:
    return GreedyPicker(processors)


VERIFIERS: dict[str, MakeVerifier] = {"rejection": RejectionVerifier, "block": BlockVerifier}
PICKERS: dict[str, MakePicker] = {"one-hot": greedy_picker, "sampled": SampledPicker}


@dataclass(frozen=True, slots=True)
class Case:
    """One draft and verify to enumerate."""

    make_verifier: MakeVerifier
    make_picker: MakePicker
    params: SamplingParams
    draft_length: int
    target: TableModel
    draft_model: TableModel
    stop_before: StopRule = never
    stop_after: StopRule = never
    num_shared_tokens: int | None = None

    def propose(self, chance: Chance) -> Draft:
        picker = self.make_picker(Processors(self.params, self.num_shared_tokens), chance)
        tokens: list[int] = []
        distributions = []
        while len(tokens) < self.draft_length:
            context = [*PREFIX, *tokens]
            candidate = picker.look(self.draft_model.next_logits(context), context)
            if self.stop_before(candidate.confidence):
                break
            token, distribution = candidate.draw(len(context))
            if distribution is not None:
                if self.stop_after(probability(distribution, token)):
                    break
                distributions.append(distribution)
            tokens.append(token)
        return Draft(tuple(tokens), tuple(distributions) if self.make_picker is SampledPicker else None)

    def verdicts(self) -> dict[Verdict, float]:
        """Every verdict with its probability."""

        def run(chance: BranchingChance) -> Verdict:
            draft = self.propose(chance)
            rows = [
                self.target.next_logits([*PREFIX, *draft.tokens[:index]])
                for index in range(len(draft.tokens) + 1)
            ]
            verifier = self.make_verifier(Processors(self.params), chance)
            return verifier.verify(PREFIX, draft, np.stack(rows))

        verdicts: dict[Verdict, float] = defaultdict(float)
        for verdict, weight in enumerate_outcomes(run):
            assert len(verdict.tokens) == verdict.num_accepted + 1
            verdicts[verdict] += weight
        assert sum(verdicts.values()) == pytest.approx(1.0, abs=TOLERANCE)
        return verdicts

    def num_accepted(self) -> float:
        """Accepted tokens of one verify, in expectation."""
        return sum(verdict.num_accepted * weight for verdict, weight in self.verdicts().items())

    def error(self) -> float:
        """The largest difference of a continuation's probability from the target's."""
        num_tokens = self.draft_length + 1
        conditionals: dict[tuple[int, ...], list[float]] = {}

        def conditional(tokens: tuple[int, ...]) -> list[float]:
            if tokens not in conditionals:
                context = [*PREFIX, *tokens]
                probs, _ = naive_probs(self.params, self.target.next_logits(context), context)
                conditionals[tokens] = probs.tolist()
            return conditionals[tokens]

        def continued(start: tuple[int, ...], tokens: tuple[int, ...]) -> float:
            """The target's probability of the rest of `tokens` after `start`."""
            weight = 1.0
            for index in range(len(start), len(tokens)):
                weight *= conditional(tokens[:index])[tokens[index]]
            return weight

        committed: dict[tuple[int, ...], float] = defaultdict(float)
        for verdict, weight in self.verdicts().items():
            committed[verdict.tokens] += weight
        error = 0.0
        for tokens in itertools.product(range(self.target.vocab_size), repeat=num_tokens):
            starts = (tokens[:length] for length in range(1, num_tokens + 1))
            actual = sum(
                committed[start] * continued(start, tokens) for start in starts if start in committed
            )
            error = max(error, abs(actual - continued((), tokens)))
        return error


def models(seed: int, vocab_size: int) -> tuple[TableModel, TableModel]:
    """A target, and a draft model that is near it for even seeds and a stranger for odd ones."""
    target = TableModel.random(seed, vocab_size, spread=1.3)
    stranger = TableModel.random(seed + 1000, vocab_size, spread=1.3)
    return target, stranger if seed % 2 else target.near_copy(seed + 1000, spread=0.7)


@pytest.mark.parametrize("draft_length", [0, 1, 2, 3])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("picker", PICKERS)
@pytest.mark.parametrize("verifier", VERIFIERS)
def test_output_has_the_law_of_the_target(
    verifier: str, picker: str, options: str, draft_length: int
) -> None:
    for seed in (0, 1):
        pair = models(seed, vocab_size=3 if draft_length == 3 else 4)
        case = Case(VERIFIERS[verifier], PICKERS[picker], OPTIONS[options], draft_length, *pair)
        assert case.error() < TOLERANCE


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_a_draft_model_with_the_target_s_own_law_is_always_accepted(verifier: str) -> None:
    target, _ = models(0, 4)
    case = Case(VERIFIERS[verifier], SampledPicker, OPTIONS["everything"], 2, target, target)
    assert case.error() < TOLERANCE
    assert case.num_accepted() == pytest.approx(2.0, abs=TOLERANCE)


@pytest.mark.parametrize("verifier", VERIFIERS)
@pytest.mark.parametrize("picker", PICKERS)
def test_a_draft_model_that_knows_fewer_tokens_keeps_the_law(verifier: str, picker: str) -> None:
    for seed in (0, 1):
        case = Case(
            VERIFIERS[verifier], PICKERS[picker], OPTIONS["plain"], 2, *models(seed, 4), num_shared_tokens=3
        )
        assert case.error() < TOLERANCE


class Trimmed(TableModel):
    """A draft model that can write tokens 0 and 2 only, as a trimmed file opened as a drafter."""

    def __init__(self, whole: TableModel) -> None:
        super().__init__(whole.table)
        self._ids = [0, 2]
        layout = TrimLayout(Path("none.gguf"), (0, 2), whole.vocab_size, "", "F32", 0, 4, 1, 1.0)
        self._vocabulary = TrimmedVocabulary(layout)

    def next_logits(self, tokens: Sequence[int]) -> Logits:
        own = super().next_logits(tokens)[self._ids].astype(np.float32)
        return np.asarray(self._vocabulary.spread(own[np.newaxis])[0], dtype=np.float64)


@pytest.mark.parametrize("verifier", VERIFIERS)
@pytest.mark.parametrize("picker", PICKERS)
@pytest.mark.parametrize("options", OPTIONS)
def test_a_trimmed_draft_model_keeps_the_law(verifier: str, picker: str, options: str) -> None:
    for seed in (0, 1):
        target, draft_model = models(seed, 4)
        case = Case(VERIFIERS[verifier], PICKERS[picker], OPTIONS[options], 2, target, Trimmed(draft_model))
        assert case.error() < TOLERANCE
        assert 0 < case.num_accepted() < 2


class ByTheDrafter(Case):
    """A case whose draft the drafter itself makes."""

    def propose(self, chance: Chance) -> Draft:
        picker = self.make_picker(Processors(self.params), chance)
        drafter = DraftModelDrafter(self.draft_model, picker, lambda _token: False)
        return drafter.propose(PREFIX, self.draft_length, lambda _confidence: Going.ON)


@pytest.mark.parametrize("verifier", VERIFIERS)
@pytest.mark.parametrize("picker", PICKERS)
@pytest.mark.parametrize("options", [name for name in OPTIONS if name != "a ban"])
def test_a_draft_that_ends_where_all_it_could_say_is_forbidden_keeps_the_law(
    verifier: str, picker: str, options: str
) -> None:
    for seed in (0, 1):
        target, draft_model = (TableModel(model.table.copy()) for model in models(seed, 4))
        for table in (target.table, draft_model.table):
            table[:, 0, [0, 2, 3]] = -np.inf  # behind a 0 only the 1 is permitted, which was trimmed away
        trimmed = Trimmed(draft_model)
        case = ByTheDrafter(VERIFIERS[verifier], PICKERS[picker], OPTIONS[options], 2, target, trimmed)
        assert case.error() < TOLERANCE


@pytest.mark.parametrize("verifier", VERIFIERS)
@pytest.mark.parametrize("picker", PICKERS)
@pytest.mark.parametrize("options", ["plain", "all truncations", "everything"])
def test_a_length_rule_that_looks_before_the_draw_keeps_the_law(
    verifier: str, picker: str, options: str
) -> None:
    def stop_before(confidence: float) -> bool:
        return confidence < 0.55

    for seed in (0, 1, 2):
        case = Case(
            VERIFIERS[verifier],
            PICKERS[picker],
            OPTIONS[options],
            3,
            *models(seed, 3),
            stop_before=stop_before,
        )
        assert case.error() < TOLERANCE


def test_a_length_rule_that_looks_after_the_draw_breaks_the_law() -> None:
    def stop_after(draft_prob: float) -> bool:
        return draft_prob < 0.4

    case = Case(RejectionVerifier, SampledPicker, PLAIN, 2, *models(1, 3), stop_after=stop_after)
    assert case.error() > VISIBLE


@pytest.mark.parametrize("picker", PICKERS)
@pytest.mark.parametrize("options", ["plain", "top_k", "penalties", "everything"])
@pytest.mark.parametrize("verifier", VERIFIERS)
def test_recovering_from_the_target_is_caught(
    verifier: str, picker: str, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def whole_target(
        target: TokenDistribution, draft: TokenDistribution, scale: float = 1.0
    ) -> tuple[TokenDistribution, float]:
        return target, residual(target, draft, scale)[1]

    monkeypatch.setattr(f"homespec.sampling.{verifier}.residual", whole_target)
    case = Case(VERIFIERS[verifier], PICKERS[picker], OPTIONS[options], 2, *models(1, 3))
    assert case.error() > VISIBLE


@pytest.mark.parametrize("options", ["plain", "top_k", "penalties", "everything"])
def test_block_verification_without_the_scale_is_caught(
    options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unscaled(
        target: TokenDistribution, draft: TokenDistribution, scale: float
    ) -> tuple[TokenDistribution, float]:
        return residual(target, draft)

    monkeypatch.setattr("homespec.sampling.block.residual", unscaled)
    assert Case(BlockVerifier, SampledPicker, OPTIONS[options], 2, *models(1, 3)).error() > VISIBLE


class ForgetsTheDraft:
    """Wrong: penalties see the history without the drafted prefix."""

    def __init__(self, processors: Processors, chance: Chance) -> None:
        self._processors = processors
        self._chance = chance

    def verify(self, history: Sequence[int], draft: Draft, logits: FloatArray) -> Verdict:
        tokens: list[int] = []
        for row in logits:
            tokens.append(self._chance.choose(self._processors.distribution(row, history), len(history)))
            if tokens[-1:] != list(draft.tokens[len(tokens) - 1 : len(tokens)]):
                break
        return Verdict(len(tokens) - 1, tuple(tokens))


def test_penalties_without_the_drafted_prefix_are_caught() -> None:
    pair = models(1, 3)
    assert Case(ForgetsTheDraft, greedy_picker, OPTIONS["penalties"], 2, *pair).error() > VISIBLE
    assert Case(ForgetsTheDraft, greedy_picker, PLAIN, 2, *pair).error() < TOLERANCE


class BelievesTheDraft:
    """Takes a sampled draft for a deterministic one."""

    def __init__(self, processors: Processors, chance: Chance) -> None:
        self._verifier = BlockVerifier(processors, chance)

    def verify(self, history: Sequence[int], draft: Draft, logits: FloatArray) -> Verdict:
        return self._verifier.verify(history, Draft(draft.tokens, None), logits)


def test_a_sampled_draft_may_be_judged_as_a_deterministic_one() -> None:
    """Exact, whatever the draft was drawn from, since given the draft it is certain; but less is accepted."""
    pair = models(0, 3)
    one_hot = Case(BelievesTheDraft, SampledPicker, PLAIN, 2, *pair)
    assert one_hot.error() < TOLERANCE
    assert one_hot.num_accepted() < Case(RejectionVerifier, SampledPicker, PLAIN, 2, *pair).num_accepted()


@pytest.mark.parametrize("seed", range(10))
def test_rejection_accepts_the_overlap_of_the_two_distributions(seed: int) -> None:
    target, draft_model = models(seed, 4)
    case = Case(RejectionVerifier, SampledPicker, PLAIN, 1, target, draft_model)
    target_probs, _ = naive_probs(PLAIN, target.next_logits(PREFIX), PREFIX)
    draft_probs, _ = naive_probs(PLAIN, draft_model.next_logits(PREFIX), PREFIX)
    overlap = np.minimum(target_probs, draft_probs).sum()
    assert case.num_accepted() == pytest.approx(overlap, abs=TOLERANCE)


@pytest.mark.parametrize("picker", PICKERS)
@pytest.mark.parametrize("options", ["plain", "all truncations", "everything"])
def test_block_verification_accepts_no_less_than_rejection(picker: str, options: str) -> None:
    gains = []
    for seed in range(6):
        pair = models(seed, 3)
        rejection = Case(RejectionVerifier, PICKERS[picker], OPTIONS[options], 3, *pair).num_accepted()
        block = Case(BlockVerifier, PICKERS[picker], OPTIONS[options], 3, *pair).num_accepted()
        assert block >= rejection - TOLERANCE
        gains.append(block - rejection)
    if picker == "sampled":  # A deterministic draft leaves block verification nothing to make up for.
        assert max(gains) > VISIBLE
    else:
        assert max(gains) < TOLERANCE
