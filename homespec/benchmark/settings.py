"""What a bench is to measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from homespec.benchmark.records import Conditions
from homespec.benchmark.scenarios import Scenario
from homespec.engine.settings import EngineSettings
from homespec.records import RequestParams, SamplingParams

Show = Callable[[str, float], None]
"""Told what is going on, and the share of it that is done."""


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """What to measure, and how.

    Attributes:
        targets: names or paths.
        engine: everything else about the models; its target is filled in.
        scenarios: all their prompts are asked.
        arm_names, lengths: see `arms.make_arms`.
        max_tokens, temperature: of each reply.
        repetitions: how often each arm answers a prompt.
        cold: every reply begins with no model file in memory.
        anyway: measure under load as well, and with files that are partly in memory.
        limit_seconds: no turn is begun that would probably end later; None for all of them.
    """

    targets: tuple[str, ...]
    engine: EngineSettings
    scenarios: tuple[Scenario, ...]
    arm_names: tuple[str, ...] = ()
    lengths: tuple[int, ...] = (5,)
    max_tokens: int = 128
    temperature: float = 0.0
    repetitions: int = 3
    cold: bool = False
    anyway: bool = False
    limit_seconds: float | None = None

    @property
    def num_turns(self) -> int:
        """How often all arms of a target answer a prompt."""
        return self.repetitions * sum(len(scenario.prompts) for scenario in self.scenarios)

    def request(self, prompt: int, repetition: int) -> RequestParams:
        """The same for all arms; when sampling, each repetition draws another text."""
        sampling = SamplingParams(temperature=self.temperature, seed=1000 * repetition + prompt)
        return RequestParams(sampling, max_tokens=self.max_tokens)

    def conditions(self, context_tokens: int, threads: tuple[int, int]) -> Conditions:
        """For the session's record.

        Args:
            context_tokens: of the first target.
            threads: for its decodes of one token, and of several.
        """
        return Conditions(
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            repetitions=self.repetitions,
            num_prompts=max(len(scenario.prompts) for scenario in self.scenarios),
            context_tokens=context_tokens,
            threads=threads[0],
            batch_threads=threads[1],
            cold=self.cold,
        )
