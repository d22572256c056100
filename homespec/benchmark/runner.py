"""A session of `homespec bench`: opens one target after the other and lets all arms answer its prompts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime

from homespec.benchmark.arms import Arm, make_arms
from homespec.benchmark.measuring import Prompt
from homespec.benchmark.models import ColdModels, WarmModels, model_files
from homespec.benchmark.provenance import describe_models, describe_session
from homespec.benchmark.records import Recorder, TargetRecord
from homespec.benchmark.settings import BenchSettings, Show
from homespec.benchmark.state import refuse_load
from homespec.benchmark.turns import Subject, Turns
from homespec.calibration.fingerprint import fingerprint
from homespec.calibration.threads import chosen_threads
from homespec.engine.calibrating import leave_out_hopeless_draft, stored_calibrations
from homespec.engine.engine import Engine
from homespec.engine.preparing import Preparation, prepare
from homespec.errors import ConfigError
from homespec.records import Message
from homespec.runtime.binding import AbortFlag
from homespec.runtime.interrupt import abort_on_interrupt

# Not a prompt of any scenario, since none is to be answered twice.
_WARM_UP_PROMPT = "Good morning! Please introduce yourself in two short sentences."


def run_bench(settings: BenchSettings, recorder: Recorder, show: Show) -> None:
    """Measures all targets, one after the other; every reply is on record as soon as it is finished.

    Args:
        settings: what to measure.
        recorder: is given every record.
        show: told how far it is.

    Raises:
        HomespecError: a model or an arm cannot be used, or the machine is not fit to be measured on.
        KeyboardInterrupt: stopped by the user.
    """
    started_at, turns = datetime.now(UTC), Turns(settings, recorder, show)
    # All targets are looked at first: a typing error in the last should not show after an hour.
    preparations = [_prepare(settings, target) for target in settings.targets]
    names = [preparation.target.model.name for preparation in preparations]
    if len(set(names)) < len(names):
        raise ConfigError(f"Two targets have the same name: {', '.join(names)}.", hint="Rename a file.")
    arms = [_arms(settings, preparation) for preparation in preparations]
    if not settings.anyway:
        refuse_load()
    models = describe_models(preparations, lambda share: show("Reading the model files", share))
    arm_names = tuple(dict.fromkeys(arm.name for own_arms in arms for arm in own_arms))
    turns.num_replies = settings.num_turns * sum(map(len, arms))
    for target, own_arms in zip(settings.targets, arms, strict=True):
        # Anew, since memory may have changed while the others were measured.
        preparation = _prepare(settings, target)
        files = model_files(preparation)
        with _open(preparation, show) as engine:
            if target == settings.targets[0]:
                conditions = settings.conditions(engine.context_tokens, _threads(engine))
                recorder.write(describe_session(models, conditions, arm_names, started_at))
            recorder.write(_describe_target(engine))
            prompts, warm_up = _tokenize(settings, engine)
            subject = Subject(engine.target_name, WarmModels(engine, files), own_arms, prompts, warm_up)
            if not settings.cold:
                turns.run(subject)
        if settings.cold:
            turns.run(subject._replace(models=ColdModels(preparation.settings, files)))


def _prepare(settings: BenchSettings, target: str) -> Preparation:
    preparation = leave_out_hopeless_draft(prepare(replace(settings.engine, target=target)))
    if preparation.reason != "on":
        raise ConfigError(
            f"There is nothing to compare with plain decoding of {preparation.target.model.name}: "
            f"{preparation.explanation}",
            hint="Choose another target, draft model or context size.",
        )
    return preparation


def _arms(settings: BenchSettings, preparation: Preparation) -> list[Arm]:
    has_draft_model = preparation.option.kind == "draft"
    return make_arms(settings.arm_names, settings.lengths, has_draft_model=has_draft_model)


@contextlib.contextmanager
def _open(preparation: Preparation, show: Show) -> Iterator[Engine]:
    """The target with its drafters; measures the machine first if it was never used before."""
    abort, name = AbortFlag(), preparation.target.model.name
    show(f"Opening {name}", 0.0)
    with abort_on_interrupt(abort):
        engine = Engine(
            preparation,
            progress=lambda share: show(f"Measuring how fast this machine is with {name}, once", share),
            abort=abort,
        )
    with engine:
        if abort.is_set:
            raise KeyboardInterrupt
        if not engine.plan.speculation:
            raise ConfigError(
                f"There is nothing to compare with plain decoding of {name}: {engine.plan.explanation}",
                hint="Choose another target.",
            )
        yield engine


def _threads(engine: Engine) -> tuple[int, int]:
    settings, path = engine.settings, engine.preparation.target.model.path
    return chosen_threads(fingerprint(path), settings.num_threads, settings.num_batch_threads)


def _describe_target(engine: Engine) -> TargetRecord:
    preparation = engine.preparation
    target, *drafts = stored_calibrations(preparation)
    curve = target.target.curve.to_json() if target is not None and target.target is not None else None
    costs = next((draft.drafter for draft in drafts if draft is not None), None)
    has_draft_model = "draft-model" in engine.drafters and preparation.draft is not None
    return TargetRecord(
        target=engine.target_name,
        draft=preparation.draft.model.name if has_draft_model and preparation.draft else None,
        plan=asdict(engine.plan),
        curve=curve,
        draft_seconds_per_token=costs.seconds_per_token if costs is not None else None,
        planned_bytes=preparation.option.price.resident_bytes,
    )


def _tokenize(settings: BenchSettings, engine: Engine) -> tuple[dict[str, Sequence[Prompt]], Prompt]:
    """All prompts by scenario, each with room for its reply, and one for the warm-up.

    Raises:
        ConfigError: a prompt is too long for the context.
    """

    def tokenize(text: str, where: str) -> Prompt:
        tokens = engine.chat_tokens([Message("user", text)])
        needed = len(tokens) + settings.max_tokens
        if needed > engine.context_tokens:
            raise ConfigError(
                f"{where} has {len(tokens):,} tokens; with a reply of {settings.max_tokens:,} that is more "
                f"than the context of {engine.context_tokens:,} holds.",
                hint=f"Pass --context-tokens {-(-needed // 1024) * 1024}, or a smaller --max-tokens.",
            )
        return Prompt(text, tokens)

    prompts: dict[str, Sequence[Prompt]] = {
        scenario.name: [
            tokenize(text, f"Prompt {number} of {scenario.name}")
            for number, text in enumerate(scenario.prompts, 1)
        ]
        for scenario in settings.scenarios
    }
    return prompts, tokenize(_WARM_UP_PROMPT, "The warm-up's prompt")
