"""Microseconds per row of everything that chooses tokens, at the vocabulary of Qwen2.5 (151,936 tokens).

    python bench/micro_sampling.py

Each figure is the best of several repeats: what the code costs when nothing else runs. Two kinds of rows,
since the cost of truncation depends on the shape: `peaked` has a few clear candidates as a language model
usually gives, `flat` spreads the mass over tens of thousands of tokens, as a high temperature does.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable

import numpy as np

from homespec.contracts import Verifier
from homespec.records import Draft, FloatArray, SamplingParams
from homespec.sampling import (
    BlockVerifier,
    CoupledVerifier,
    GreedyPicker,
    GreedyVerifier,
    Processors,
    RejectionVerifier,
    SeededChance,
    SharedNoise,
)

VOCAB_SIZE = 151_936
NUM_DRAFT_TOKENS = 5
CONTEXT = list(range(1000))

GREEDY = SamplingParams(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0)
TEMPERATURE = SamplingParams(temperature=0.8, top_k=0, top_p=1.0, min_p=0.0)
TOP_K = SamplingParams(temperature=0.8, top_k=40, top_p=1.0, min_p=0.0)
TOP_P = SamplingParams(temperature=0.8, top_k=0, top_p=0.95, min_p=0.0)
MIN_P = SamplingParams(temperature=0.8, top_k=0, top_p=1.0, min_p=0.05)
DEFAULT = SamplingParams(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05)
PENALISED = SamplingParams(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05, repeat_penalty=1.1)


def make_rows(num_rows: int, num_candidates: int) -> FloatArray:
    """Float32 logits of shape (num_rows, VOCAB_SIZE): a broad bulk, and candidates well above it."""
    generator = np.random.default_rng(0)
    rows = generator.normal(0.0, 2.5, (num_rows, VOCAB_SIZE)).astype(np.float32)
    for row in rows:
        row[generator.integers(0, VOCAB_SIZE, num_candidates)] += np.float32(14)
    return rows


def microseconds(function: Callable[[], object]) -> float:
    """The best of 7 repeats of 30 calls."""
    return min(timeit.repeat(function, number=30, repeat=7)) / 30 * 1e6


def cases(rows: FloatArray) -> dict[str, Callable[[], object]]:
    """What is measured."""
    row = rows[0]
    chance = SeededChance(0)
    noise = SharedNoise(0)

    def sampled(params: SamplingParams) -> Callable[[], object]:
        processors = Processors(params)
        return lambda: chance.choose(processors.distribution(row, CONTEXT), 0)

    def coupled(params: SamplingParams) -> Callable[[], object]:
        processors = Processors(params)
        return lambda: noise.choose(processors.distribution(row, CONTEXT), 0)

    def verified(verifier: Verifier) -> Callable[[], object]:
        draft = Draft(tuple(int(row.argmax()) for row in rows[:NUM_DRAFT_TOKENS]))
        return lambda: verifier.verify(CONTEXT, draft, rows)

    greedy = Processors(GREEDY)
    picker = GreedyPicker(greedy)
    return {
        "greedy": lambda: greedy.argmax(row, CONTEXT),
        "greedy draft with confidence": lambda: picker.look(row, CONTEXT).draw(0),
        "temperature": sampled(TEMPERATURE),
        "temperature, top-k 40": sampled(TOP_K),
        "temperature, top-p .95": sampled(TOP_P),
        "temperature, min-p .05": sampled(MIN_P),
        "temperature, top-k, top-p, min-p": sampled(DEFAULT),
        "the same with a repeat penalty": sampled(PENALISED),
        "coupled, temperature": coupled(TEMPERATURE),
        "coupled, temperature, top-k, top-p, min-p": coupled(DEFAULT),
        "verify a draft of 5: greedy, all accepted": verified(GreedyVerifier(greedy)),
        "verify a draft of 5: rejection, temperature": verified(
            RejectionVerifier(Processors(TEMPERATURE), chance)
        ),
        "verify a draft of 5: rejection, all": verified(RejectionVerifier(Processors(DEFAULT), chance)),
        "verify a draft of 5: block, all": verified(BlockVerifier(Processors(DEFAULT), chance)),
        "verify a draft of 5: coupled, all": verified(CoupledVerifier(Processors(DEFAULT), noise)),
    }


def main() -> None:
    """Prints one line per case: per row, and for a verify per call, which reads up to 6 rows."""
    peaked = cases(make_rows(NUM_DRAFT_TOKENS + 1, 30))
    flat = cases(make_rows(NUM_DRAFT_TOKENS + 1, 0))
    sys.stdout.write(
        f"{'microseconds at ' + format(VOCAB_SIZE, ',') + ' tokens':52}{'peaked':>9}{'flat':>9}\n"
    )
    for name, function in peaked.items():
        sys.stdout.write(f"{name:52}{microseconds(function):9.1f}{microseconds(flat[name]):9.1f}\n")


if __name__ == "__main__":
    main()
