"""The controller against every fixed setting on recorded replies, by the cost curve instead of the clock.

    .venv/bin/python bench/suites.py --model TARGET --jsonl replies.jsonl SUITE.jsonl ...
    .venv/bin/python bench/replay.py read --model TARGET [--draft DRAFT] --replies replies.jsonl
        --output replay.json SUITE.jsonl ...
    .venv/bin/python bench/replay.py score --model TARGET [--draft DRAFT] [--rounds 1] replay.json

A greedy reply is the same whoever drafts. So what a drafter at a draft length would have made of it follows
from the text and from what the drafter proposes at each of its tokens; `read` has the draft model say that.
`score` then runs n-gram lookup, the draft model and one after the other at every draft length, and the
controller, over the recorded texts, and charges each step what calibration measured here. No noise of the
machine is in the result, and nothing but drafting and verifying: a setting's speed is that of the text after
the prompt. The controller starts without experience, and learns from round to round.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import figures
from homespec.benchmark.arms import AUTO, PLAIN, make_arms
from homespec.calibration.costs import DrafterCosts
from homespec.calibration.curve import CostCurve, RunningCurve
from homespec.calibration.store import remembered_calibration
from homespec.catalog.store import resolve
from homespec.contracts import Drafter, Going, KeepGoing, LengthPolicy
from homespec.decoding.replay import replay
from homespec.drafting.arm import Arm
from homespec.drafting.chain import ChainDrafter
from homespec.drafting.control import Controller
from homespec.drafting.draft_model import DraftModelDrafter
from homespec.drafting.ledger import Ledger
from homespec.drafting.length import FixedLength
from homespec.drafting.router import classify
from homespec.drafting.suffix import SuffixDrafter
from homespec.engine.engine import Engine
from homespec.engine.settings import AUTO_DRAFT_LENGTH, EngineSettings
from homespec.errors import HomespecError
from homespec.records import Draft, Message, SamplingParams
from homespec.sampling import make_sampling

_LENGTHS = range(1, 9)
_LOOK_EVERY_TOKENS = 32
_WRONG = -1


@dataclass(frozen=True, slots=True)
class Text:
    """A recorded reply.

    Attributes:
        suite: where the prompt is from.
        prompt: as it was asked.
        prompt_tokens, tokens: of the whole prompt, and of the reply.
        pieces: the text of each token of the reply.
        drafted, confidences: for each token of the reply what the draft model would have proposed there, and
            how sure it was; empty without one.
    """

    suite: str
    prompt: str
    prompt_tokens: list[int]
    tokens: list[int]
    pieces: list[str]
    drafted: list[int]
    confidences: list[float]


class RecordedDrafter:
    """The draft model, as it was recorded; what it says behind a wrong token of its own is wrong as well."""

    name = DraftModelDrafter.name

    def __init__(self, text: Text) -> None:
        self._text = text
        self._num_known = 0
        self._num_drawn = self._num_read = self._num_second = 0

    def behind(self, tokens: Sequence[int]) -> int:
        """See `DraftModelDrafter.behind`."""
        return len(tokens) - self._num_known

    def propose(self, tokens: Sequence[int], max_tokens: int, keep_going: KeepGoing) -> Draft:
        """See `Drafter.propose`."""
        behind = self.behind(tokens)
        self._num_second += behind == 2
        self._num_read += behind - 1 if behind > 2 else 0
        start = len(tokens) - len(self._text.prompt_tokens)
        drafted: list[int] = []
        right = list(tokens[-start:]) == self._text.tokens[:start] if start else True
        for place in range(start, min(start + max_tokens, len(self._text.tokens))):
            going = keep_going(self._text.confidences[place])
            if going == Going.STOP:
                break
            drafted.append(self._text.drafted[place] if right else _WRONG)
            right = right and drafted[-1] == self._text.tokens[place]
            if going == Going.LAST:
                break
        self._num_drawn += len(drafted)
        self._num_known = len(tokens) + max(0, len(drafted) - 1)
        return Draft(tuple(drafted), None, tuple(self._text.confidences[start : start + len(drafted)]))

    def seconds(self, costs: DrafterCosts) -> float:
        """All that was drawn and read took."""
        return (
            self._num_drawn * costs.seconds_per_token
            + self._num_second * (costs.catch_up_seconds - costs.seconds_per_token)
            + self._num_read / costs.prefill_tokens_per_second
        )


class Machine:
    """What was measured here."""

    def __init__(self, model: str, draft: str | None) -> None:
        self.curve = _measured_curve(model)
        self.drafter = _measured_drafter(draft) if draft else None

    def steps(self, width: int, depth_tokens: int) -> float:
        """Time of a decode, in plain steps."""
        return self.curve.seconds(width, depth_tokens) / self.curve.seconds(1, depth_tokens)


def _measured_curve(model: str) -> CostCurve:
    found = remembered_calibration(resolve(model).path, kv_type="f16", repack=True, mmap=True)
    if found is None or found.target is None:
        sys.exit(f"{model} was not calibrated here: homespec calibrate {model}")
    return found.target.curve


def _measured_drafter(draft: str) -> DrafterCosts:
    found = remembered_calibration(resolve(draft).path, kv_type="f16", repack=True, mmap=True)
    if found is None or found.drafter is None:
        sys.exit(f"{draft} was not calibrated as a draft model: homespec calibrate TARGET --draft {draft}")
    return found.drafter


def main() -> None:
    """Runs one of the two commands."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    reading = commands.add_parser("read")
    reading.add_argument("suites", type=Path, nargs="+")
    reading.add_argument("--replies", type=Path, required=True)
    reading.add_argument("--output", type=Path, required=True)
    reading.set_defaults(run=read)
    scoring = commands.add_parser("score")
    scoring.add_argument("recorded", type=Path)
    scoring.add_argument("--rounds", type=int, default=1)
    scoring.set_defaults(run=score)
    for command in (reading, scoring):
        command.add_argument("--model", required=True)
        command.add_argument("--draft")
    options = parser.parse_args()
    try:
        options.run(options)
    except HomespecError as error:
        sys.exit(f"{error.message} {error.hint or ''}")


def read(options: argparse.Namespace) -> None:
    """Adds to recorded replies what the draft model proposes at each of their tokens."""
    prompts = {suite.stem: figures.read_prompts(suite, 1000) for suite in options.suites}
    records = map(json.loads, options.replies.read_text(encoding="utf-8").splitlines())
    settings = EngineSettings(
        options.model, options.draft or "off", draft_length=1 if options.draft else None
    )
    with Engine(settings) as engine:
        texts = [
            _read(engine, record["suite"], prompts[record["suite"]][record["number"]], record["token_ids"])
            for record in records
            if record["record"] == "run" and record["arm"] == PLAIN.name and record["suite"] in prompts
        ]
    options.output.write_text(json.dumps([asdict(text) for text in texts]), encoding="utf-8")


def _read(engine: Engine, suite: str, prompt: str, tokens: list[int]) -> Text:
    prompt_tokens = engine.chat_tokens([Message("user", prompt)])
    pieces = [engine.vocabulary.text([token]) for token in tokens]
    drafts = []
    if engine.drafters:
        sampling = make_sampling(SamplingParams(temperature=0.0), None, engine.preparation.num_shared_tokens)
        drafter = engine._drafter("draft-model", sampling)
        history = [*prompt_tokens, *tokens]
        drafts = [
            drafter.propose(history[:end], 1, lambda _confidence: Going.LAST)
            for end in range(len(prompt_tokens), len(history))
        ]
    drafted = [draft.tokens[0] if draft.tokens else _WRONG for draft in drafts]
    confidences = [draft.confidences[0] if draft.tokens else 0.0 for draft in drafts]
    return Text(suite, prompt, prompt_tokens, tokens, pieces, drafted, confidences)


def score(options: argparse.Namespace) -> None:
    """Prints for each suite the speed of every setting, as a multiple of plain decoding."""
    texts = [Text(**text) for text in json.loads(options.recorded.read_text(encoding="utf-8"))]
    machine = Machine(options.model, options.draft)
    arms = [arm for arm in make_arms((), _LENGTHS, has_draft_model=options.draft is not None) if arm.fixed]
    speeds: dict[tuple[str, str], float] = {}
    suites = list(dict.fromkeys(text.suite for text in texts))
    for arm in arms:
        assert arm.fixed is not None
        for suite in suites:
            num_tokens = num_steps = 0.0
            for text in texts:
                if text.suite == suite:
                    recorded = RecordedDrafter(text)
                    drafters: list[Drafter] = [
                        SuffixDrafter() if name == "ngram" else recorded for name in arm.fixed.drafters
                    ]
                    num_steps += replay_steps(
                        text, ChainDrafter(drafters), FixedLength(arm.fixed.length), recorded, machine
                    )
                    num_tokens += len(text.tokens) - 1  # Reading the prompt gives the first.
            speeds[suite, arm.name] = num_tokens / num_steps
    speeds |= {(suite, AUTO.name): speed for suite, speed in control(texts, machine, options.rounds).items()}
    for suite in suites:
        sys.stdout.write(describe(suite, {arm: speed for (of, arm), speed in speeds.items() if of == suite}))


def control(texts: Sequence[Text], machine: Machine, num_rounds: int) -> dict[str, float]:
    """The controller's speed by suite, in the last round."""
    curve, ledger, kept = RunningCurve(machine.curve), Ledger(), Arm(SuffixDrafter())
    model: Arm | None = None
    sums: dict[str, list[float]] = {}
    for _ in range(num_rounds):
        sums = {}
        for text in texts:
            recorded = RecordedDrafter(text)
            kept.drafter = SuffixDrafter()
            arms = [kept]
            if machine.drafter is not None:
                token_steps, catch_up_steps = machine.drafter.in_plain_steps(machine.curve.plain_seconds)
                model = model or Arm(recorded, token_steps=token_steps, catch_up_steps=catch_up_steps)
                model.drafter, model.behind = recorded, recorded.behind
                arms.append(model)
            controller = Controller(curve, arms, AUTO_DRAFT_LENGTH, ledger, pinned=True)
            one = sums.setdefault(text.suite, [0.0, 0.0])
            one[0] += len(text.tokens) - 1
            one[1] += replay_steps(text, controller, controller, recorded, machine)
    return {suite: num_tokens / num_steps for suite, (num_tokens, num_steps) in sums.items()}


def replay_steps(
    text: Text, drafter: Drafter, lengths: LengthPolicy, recorded: RecordedDrafter, machine: Machine
) -> float:
    """Decodes a recorded reply; returns the time that it takes, in plain steps."""
    num_prompt_tokens = len(text.prompt_tokens)
    num_done = next_look = 0
    num_steps = 0.0

    def look() -> None:
        nonlocal next_look
        if isinstance(lengths, Controller) and num_done >= next_look:
            lengths.kind = classify(text.prompt, "".join(text.pieces[:num_done])).kind
            next_look = num_done + _LOOK_EVERY_TOKENS

    look()
    for step in replay([*text.prompt_tokens, *text.tokens], num_prompt_tokens, drafter, lengths):
        if step.width:
            num_steps += machine.steps(step.width, num_prompt_tokens + num_done - 1)
        num_done += len(step.tokens)
        look()
    draft_seconds = recorded.seconds(machine.drafter) if machine.drafter else 0.0
    return num_steps + draft_seconds / machine.curve.plain_seconds


def describe(suite: str, speeds: dict[str, float]) -> str:
    """The lines of a suite."""
    drafters = dict.fromkeys(name.partition(" ")[0] for name in speeds if name not in (PLAIN.name, AUTO.name))
    fixed = {name: speed for name, speed in speeds.items() if name != AUTO.name}
    best = max(fixed, key=fixed.__getitem__)
    lines = [f"\n{suite}", f"  {'length':18}" + " ".join(f"{length:5}" for length in _LENGTHS)]
    lines += [
        f"  {drafter:18}" + " ".join(f"{speeds[f'{drafter} {length}']:5.2f}" for length in _LENGTHS)
        for drafter in drafters
    ]
    lines.append(f"  best fixed setting {best} {fixed[best]:.3f}; auto {speeds[AUTO.name]:.3f}")
    return "\n".join([*lines, f"  auto / best fixed {speeds[AUTO.name] / fixed[best]:.3f}\n"])


if __name__ == "__main__":
    main()
