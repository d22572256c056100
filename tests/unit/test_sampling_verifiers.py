"""Verifiers, pickers and the factory that pairs them; their laws are in tests/law."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from homespec.contracts import Verifier
from homespec.errors import ConfigError, DecodeError
from homespec.records import (
    NO_DRAFT,
    Draft,
    FloatArray,
    SamplingParams,
    TokenDistribution,
    Verdict,
    VerifierName,
)
from homespec.sampling import (
    BlockVerifier,
    CoupledPicker,
    CoupledVerifier,
    GreedyPicker,
    GreedyVerifier,
    Processors,
    RejectionVerifier,
    SampledPicker,
    SeededChance,
    SharedNoise,
    make_sampling,
)

HISTORY = [1, 2, 3]
GREEDY = SamplingParams(temperature=0.0)
PLAIN = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)


def rows_for(*tokens: int, vocab_size: int = 5) -> FloatArray:
    """Rows whose every law is (nearly) one token each; a negative token stands for a row of NaN."""
    rows = np.full((len(tokens), vocab_size), -200.0, dtype=np.float32)
    for row, token in zip(rows, tokens, strict=True):
        row[max(0, token)] = 0.0 if token >= 0 else math.nan
    rows.flags.writeable = False
    return rows


def verifiers() -> dict[str, Verifier]:
    return {
        "greedy": GreedyVerifier(Processors(GREEDY)),
        "rejection": RejectionVerifier(Processors(PLAIN), SeededChance(0)),
        "block": BlockVerifier(Processors(PLAIN), SeededChance(0)),
        "coupled": CoupledVerifier(Processors(PLAIN), SharedNoise(0)),
    }


class ScriptedChance:
    """Records the positions that it is asked for; accepts as told and takes the most probable token."""

    def __init__(self, *answers: bool) -> None:
        self._answers = list(answers)
        self.positions: list[int] = []

    def happens(self, probability: float) -> bool:
        return self._answers.pop(0) if self._answers else probability >= 1

    def choose(self, distribution: TokenDistribution, position: int) -> int:
        self.positions.append(position)
        return int(distribution.ids[distribution.probs.argmax()])


@pytest.mark.parametrize("name", verifiers())
@pytest.mark.parametrize(
    ("draft", "rows", "verdict"),
    [
        ((), (4,), Verdict(0, (4,))),
        ((4, 2), (4, 2, 0), Verdict(2, (4, 2, 0))),
        ((4, 2), (4, 3, 0), Verdict(1, (4, 3))),
        ((4, 2), (1, 2, 0), Verdict(0, (1,))),
    ],
)
def test_certain_targets_decide(
    name: str, draft: tuple[int, ...], rows: tuple[int, ...], verdict: Verdict
) -> None:
    assert verifiers()[name].verify(HISTORY, Draft(draft), rows_for(*rows)) == verdict


@pytest.mark.parametrize("name", verifiers())
def test_rows_after_the_first_rejection_are_not_looked_at(name: str) -> None:
    verdict = verifiers()[name].verify(HISTORY, Draft((4, 2, 2)), rows_for(4, 3, -1, -1))
    assert verdict == Verdict(1, (4, 3))


@pytest.mark.parametrize("name", verifiers())
def test_a_row_of_nan_is_an_error_where_it_counts(name: str) -> None:
    with pytest.raises(DecodeError, match="nan"):
        verifiers()[name].verify(HISTORY, Draft((4,)), rows_for(4, -1))


@pytest.mark.parametrize("make_verifier", [RejectionVerifier, BlockVerifier])
@pytest.mark.parametrize(
    ("draft", "rows"), [((), (4,)), ((4, 2), (4, 2, 0)), ((4, 2), (4, 3, 0)), ((4,), (1, 0))]
)
def test_tokens_are_drawn_at_their_index_in_the_sequence(
    make_verifier: type[RejectionVerifier | BlockVerifier], draft: tuple[int, ...], rows: tuple[int, ...]
) -> None:
    chance = ScriptedChance()
    verdict = make_verifier(Processors(PLAIN), chance).verify(HISTORY, Draft(draft), rows_for(*rows))
    assert chance.positions == [len(HISTORY) + verdict.num_accepted]


def test_block_verification_takes_the_longest_prefix_that_wins_its_coin() -> None:
    logits = np.zeros((3, 4))
    for answers, num_accepted in (((True,), 2), ((False, True), 1), ((False, False), 0)):
        verifier = BlockVerifier(Processors(PLAIN), ScriptedChance(*answers))
        assert verifier.verify(HISTORY, Draft((0, 0)), logits).num_accepted == num_accepted


def test_coupled_target_draws_do_not_depend_on_the_draft() -> None:
    noise = SharedNoise(3)
    processors = Processors(PLAIN)
    logits = np.random.default_rng(0).normal(size=(3, 6))
    draws = [noise.choose(processors.distribution(row, ()), 3 + index) for index, row in enumerate(logits)]
    verifier = CoupledVerifier(processors, noise)
    assert verifier.verify(HISTORY, Draft(tuple(draws[:2])), logits) == Verdict(2, tuple(draws))
    wrong = (draws[1] + 1) % 6
    assert verifier.verify(HISTORY, Draft((draws[0], wrong)), logits) == Verdict(1, tuple(draws[:2]))


def test_greedy_confidence_is_the_softmax_at_temperature_1() -> None:
    row = np.log(np.array([0.2, 0.5, 0.3]))
    candidate = GreedyPicker(Processors(GREEDY)).look(row, ())
    assert candidate.confidence == pytest.approx(0.5)
    assert candidate.draw(7) == (1, None)


def test_sampled_candidate_hands_on_its_distribution() -> None:
    row = np.log(np.array([0.2, 0.5, 0.3]))
    chance = ScriptedChance()
    candidate = SampledPicker(Processors(PLAIN), chance).look(row, ())
    assert candidate.confidence == pytest.approx(0.5)
    assert chance.positions == []  # Nothing is drawn before the length rule has seen the confidence.
    token, distribution = candidate.draw(7)
    assert (token, chance.positions) == (1, [7])
    assert distribution is not None
    assert distribution.probs.tolist() == pytest.approx([0.2, 0.5, 0.3])


def test_coupled_candidate_is_what_the_target_would_choose() -> None:
    row = np.random.default_rng(1).normal(size=20)
    noise = SharedNoise(5)
    candidate = CoupledPicker(Processors(PLAIN), noise).look(row, ())
    for position in range(50):
        expected = noise.choose(Processors(PLAIN).distribution(row, ()), position)
        assert candidate.draw(position) == (expected, None)


@pytest.mark.parametrize("params", [GREEDY, PLAIN])
@pytest.mark.parametrize("name", [None, "rejection", "block", "coupled"])
def test_a_candidate_outlives_the_row(params: SamplingParams, name: VerifierName | None) -> None:
    row = np.array([-50.0, 50.0, 0.0], dtype=np.float32)
    candidate = make_sampling(params, name).picker.look(row, ())
    row[:] = [50.0, -50.0, 0.0]  # The next decode of llama.cpp writes over it.
    assert candidate.draw(0)[0] == 1


@pytest.mark.parametrize(
    ("params", "asked", "resolved"),
    [
        (GREEDY, None, "greedy"),
        (GREEDY, "greedy", "greedy"),
        (GREEDY, "rejection", "greedy"),
        (GREEDY, "coupled", "greedy"),
        (PLAIN, None, "rejection"),
        (PLAIN, "rejection", "rejection"),
        (PLAIN, "block", "block"),
        (PLAIN, "coupled", "coupled"),
    ],
)
def test_the_factory_resolves_the_verifier(
    params: SamplingParams, asked: VerifierName | None, resolved: str
) -> None:
    sampling = make_sampling(params, asked)
    types = {
        "greedy": (GreedyVerifier, GreedyPicker),
        "rejection": (RejectionVerifier, SampledPicker),
        "block": (BlockVerifier, SampledPicker),
        "coupled": (CoupledVerifier, CoupledPicker),
    }
    assert sampling.name == resolved
    assert (type(sampling.verifier), type(sampling.picker)) == types[resolved]


def test_greedy_verification_of_samples_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"temperature is 1\.0"):
        make_sampling(PLAIN, "greedy")


def test_the_factory_checks_the_options() -> None:
    with pytest.raises(ConfigError, match="top_p"):
        make_sampling(SamplingParams(top_p=2.0))


def test_the_picker_proposes_shared_tokens_only() -> None:
    row = np.array([0.0, 1.0, 9.0])
    names: tuple[VerifierName, ...] = ("rejection", "coupled")
    for params in (GREEDY, PLAIN):
        for name in names:
            picker = make_sampling(params, name, num_shared_tokens=2).picker
            assert {picker.look(row, ()).draw(position)[0] for position in range(40)} <= {0, 1}


def test_requests_with_the_same_seed_give_the_same_tokens() -> None:
    logits = np.zeros((1, 50), dtype=np.float32)

    def text(seed: int) -> Sequence[int]:
        sampling = make_sampling(SamplingParams(seed=seed, top_k=0))
        return [sampling.verifier.verify(HISTORY, NO_DRAFT, logits).tokens[0] for _ in range(20)]

    assert text(1) == text(1)
    assert text(1) != text(2)


def test_plain_text_does_not_depend_on_whether_blocks_would_be_verified() -> None:
    logits = np.zeros((1, 50), dtype=np.float32)
    texts = []
    names: tuple[VerifierName, ...] = ("rejection", "block")
    for name in names:
        verifier = make_sampling(PLAIN, name).verifier
        texts.append([verifier.verify(HISTORY, NO_DRAFT, logits).tokens for _ in range(20)])
    assert texts[0] == texts[1]


def test_picker_and_verifier_share_one_generator() -> None:
    """Were they seeded alike, the recovered token would be drawn with the number that drew the draft."""
    sampling = make_sampling(PLAIN)
    uniform = np.zeros(64)
    draft = [sampling.picker.look(uniform, ()).draw(index)[0] for index in range(20)]
    target = [sampling.verifier.verify(HISTORY, NO_DRAFT, uniform[None]).tokens[0] for _ in range(20)]
    assert draft != target
