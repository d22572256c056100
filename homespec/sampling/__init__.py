"""Choosing tokens: the arithmetic that keeps the target's law.

Everything here is NumPy on rows of logits; it knows neither models nor text, and imports nothing of homespec
but contracts, records, errors and units.

Start at `make_sampling`, which turns the options of a request into a verifier for the decoding loop and a
picker for a draft model. From there:

    processors     a row of logits -> a distribution (or the argmax)
    distributions  drawing, and the residual that rejection samples from
    chance         randomness: a seeded generator, or noise shared by draft and target
    greedy, rejection, block, coupled
                   one verifier each
    pickers        how a draft model chooses its tokens for each of them

The law of every verifier is enumerated in tests/law/test_verifier_laws.py.
"""

from __future__ import annotations

from homespec.sampling.block import BlockVerifier
from homespec.sampling.chance import SeededChance, SharedNoise
from homespec.sampling.coupled import CoupledVerifier
from homespec.sampling.factory import Sampling, make_sampling
from homespec.sampling.greedy import GreedyVerifier
from homespec.sampling.pickers import Candidate, CoupledPicker, GreedyPicker, Picker, SampledPicker
from homespec.sampling.processors import Processors
from homespec.sampling.rejection import RejectionVerifier

__all__ = [
    "BlockVerifier",
    "Candidate",
    "CoupledPicker",
    "CoupledVerifier",
    "GreedyPicker",
    "GreedyVerifier",
    "Picker",
    "Processors",
    "RejectionVerifier",
    "SampledPicker",
    "Sampling",
    "SeededChance",
    "SharedNoise",
    "make_sampling",
]
