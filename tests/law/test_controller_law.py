"""The law with the controller in the loop: whole replies, every branch of chance, through the real code.

The controller decides in every step whether to draft, with which arm, and how far, and learns from what was
accepted. None of that may show in the distribution of the text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import pytest

from homespec.contracts import Chance, Drafter, KeepGoing, Verifier
from homespec.drafting.arm import Arm
from homespec.drafting.draft_model import DraftModelDrafter
from homespec.records import Draft, SamplingParams
from homespec.sampling import BlockVerifier, Processors, RejectionVerifier, SampledPicker
from homespec.sampling.distributions import probability
from tests.support.branching_chance import BranchingChance, enumerate_outcomes
from tests.support.made_up_costs import flat, pinned, typical
from tests.support.naive_sampling import naive_probs
from tests.support.ngram import NgramDrafter
from tests.support.scripted import make_reply, run
from tests.support.table_model import TableModel

pytestmark = pytest.mark.law

TOLERANCE = 1e-9
PROMPT = [0, 1, 0, 1]
NUM_TOKENS = 5
PARAMS = SamplingParams(temperature=1.1, top_k=0, top_p=1.0, min_p=0.0, repeat_penalty=1.2)
VERIFIERS: dict[str, Callable[[Processors, Chance], Verifier]] = {
    "rejection": RejectionVerifier,
    "block": BlockVerifier,
}


class Confident:
    """Gives an n-gram drafter's tokens confidences that depend on what they are."""

    name = "ngram"

    def __init__(self) -> None:
        self._inner = NgramDrafter(1, 2)

    def propose(self, tokens: Sequence[int], max_tokens: int, keep_going: KeepGoing) -> Draft:
        draft = self._inner.propose(tokens, max_tokens, keep_going)
        return Draft(draft.tokens, None, tuple(0.3 + 0.3 * token for token in draft.tokens))


class AfterTwo:
    """Is sure of what follows the token 2, and of nothing else: it goes on where a draft model drew a 2."""

    name = "ngram"

    def propose(self, tokens: Sequence[int], max_tokens: int, keep_going: KeepGoing) -> Draft:
        draft = (1, 0)[:max_tokens] if tokens[-1] == 2 else ()
        return Draft(draft, None, (0.99,) * len(draft))


class Peeking:
    """Drops drafted tokens that were unlikely, having seen them: just what must not be done."""

    name = "draft-model"

    def __init__(self, inner: DraftModelDrafter) -> None:
        self._inner = inner

    def propose(self, tokens: Sequence[int], max_tokens: int, keep_going: KeepGoing) -> Draft:
        draft = self._inner.propose(tokens, max_tokens, keep_going)
        length = 0
        while length < len(draft.tokens):
            assert draft.probs is not None
            if probability(draft.probs[length], draft.tokens[length]) < 0.5:
                break
            length += 1
        return Draft(draft.tokens[:length], (draft.probs or ())[:length], draft.confidences[:length])


def reply_law(
    name: str,
    curve: Callable[[int], float],
    free: Callable[[], Drafter] = Confident,
    *,
    token_steps: float = 0.15,
    peek: bool = False,
) -> tuple[dict[tuple[int, ...], float], set[tuple[str, int]]]:
    """Text -> probability, and which (arm, draft length) pairs occurred."""
    used: set[tuple[str, int]] = set()

    def one(chance: BranchingChance) -> tuple[int, ...]:
        target = TableModel.random(5, 3, spread=1.2)
        picker = SampledPicker(Processors(PARAMS), chance)
        model = DraftModelDrafter(target.near_copy(8, spread=0.8), picker, lambda _token: False)
        arms = [
            Arm(free()),
            Arm(Peeking(model) if peek else model, token_steps=token_steps, deterministic=False),
        ]
        reply = make_reply(
            PROMPT,
            VERIFIERS[name](Processors(PARAMS), chance),
            drafter=(controller := pinned(curve, *arms, max_length=3)),
            lengths=controller,
            max_tokens=NUM_TOKENS,
        )
        used.update((step.drafter, step.num_draft_tokens) for step in run(target, reply))
        return tuple(reply.tokens[len(PROMPT) :])

    law: dict[tuple[int, ...], float] = defaultdict(float)
    for text, weight in enumerate_outcomes(one):
        law[text] += weight
    return law, used


def target_law() -> dict[tuple[int, ...], float]:
    target = TableModel.random(5, 3, spread=1.2)
    law: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(NUM_TOKENS):
        grown: dict[tuple[int, ...], float] = {}
        for text, weight in law.items():
            context = [*PROMPT, *text]
            probs, _ = naive_probs(PARAMS, target.next_logits(context), context)
            for token, share in enumerate(probs):
                grown[*text, token] = weight * float(share)
        law = grown
    return law


def distance(first: dict[tuple[int, ...], float], second: dict[tuple[int, ...], float]) -> float:
    return max(abs(first.get(text, 0.0) - second.get(text, 0.0)) for text in {*first, *second})


@pytest.mark.parametrize("curve", [flat, typical])
@pytest.mark.parametrize("name", VERIFIERS)
def test_the_controller_keeps_the_law(name: str, curve: Callable[[int], float]) -> None:
    law, used = reply_law(name, curve)
    assert sum(law.values()) == pytest.approx(1.0, abs=TOLERANCE)
    assert distance(law, target_law()) < TOLERANCE
    # The case is worth enumerating only if the controller really chose between arms and lengths.
    assert {drafter for drafter, _ in used} >= {"ngram", "draft-model", "none"}


@pytest.mark.parametrize("name", VERIFIERS)
def test_a_free_drafter_may_go_on_behind_drawn_tokens(name: str) -> None:
    law, used = reply_law(name, flat, AfterTwo, token_steps=0.4)
    assert distance(law, target_law()) < TOLERANCE
    assert "draft-model+ngram" in {drafter for drafter, _ in used}


def test_peeking_at_drawn_tokens_is_caught() -> None:
    law, _ = reply_law("rejection", typical, peek=True)
    assert distance(law, target_law()) > 1e-4
