"""Sampling options -> the verifier and the picker that belong together."""

from __future__ import annotations

from dataclasses import dataclass

from homespec.contracts import Verifier
from homespec.errors import ConfigError
from homespec.records import SamplingParams, VerifierName
from homespec.sampling.block import BlockVerifier
from homespec.sampling.chance import SeededChance, SharedNoise
from homespec.sampling.coupled import CoupledVerifier
from homespec.sampling.greedy import GreedyVerifier
from homespec.sampling.pickers import CoupledPicker, GreedyPicker, Picker, SampledPicker
from homespec.sampling.processors import Processors
from homespec.sampling.rejection import RejectionVerifier


@dataclass(frozen=True, slots=True)
class Sampling:
    """How one request chooses tokens.

    Attributes:
        name: the verifier in use.
        verifier: judges drafts, and samples where there is none.
        picker: how a draft model chooses for this verifier.
    """

    name: VerifierName
    verifier: Verifier
    picker: Picker


def make_sampling(
    params: SamplingParams, verifier: VerifierName | None = None, num_shared_tokens: int | None = None
) -> Sampling:
    """Builds what one request needs; its random generator is new, and shared by verifier and picker.

    Args:
        params: the request's options.
        verifier: None is rejection. At temperature 0 every verifier is greedy matching, whatever its name.
        num_shared_tokens: the draft model proposes only ids below it; None is all.

    Raises:
        ConfigError: an option is out of range, or greedy verification was asked for at a temperature above 0.
    """
    target = Processors(params)
    draft = Processors(params, num_tokens=num_shared_tokens)
    if params.greedy:
        return Sampling("greedy", GreedyVerifier(target), GreedyPicker(draft))
    if verifier == "greedy":
        raise ConfigError(
            f"The greedy verifier needs temperature 0; the temperature is {params.temperature}.",
            hint="Set the temperature to 0, or choose rejection, block or coupled.",
        )
    if verifier == "coupled":
        noise = SharedNoise(params.seed)
        return Sampling("coupled", CoupledVerifier(target, noise), CoupledPicker(draft, noise))
    chance = SeededChance(params.seed)
    picker = SampledPicker(draft, chance)
    if verifier == "block":
        return Sampling("block", BlockVerifier(target, chance), picker)
    return Sampling("rejection", RejectionVerifier(target, chance), picker)
