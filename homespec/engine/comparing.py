"""Which number format of a target is best here, drafts included? Imports neither llama.cpp nor NumPy."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from homespec.catalog.entries import ModelEntry, load_catalog
from homespec.catalog.facts import ModelFacts
from homespec.catalog.quantizations import (
    FULL_PRECISION,
    bits_per_weight,
    file_type,
    lossy_source,
    quantized_bytes,
)
from homespec.catalog.store import ResolvedModel, is_path, model_path, resolve
from homespec.catalog.trimmed import read_trim
from homespec.engine.forecast import (
    Forecast,
    calibrate_command,
    foretell,
    is_hopeless,
    remembered_calibrations,
)
from homespec.engine.preparing import NGRAM, Preparation, prepare
from homespec.engine.settings import EngineSettings
from homespec.errors import ConfigError
from homespec.runtime.cpuinfo import cpu_features

# What may be made where it is not there; what lies between would hardly be chosen instead.
_MAKEABLE = ("Q4_K_M", "Q8_0", "F16")
# With these instructions llama.cpp (ggml-cpu/llamafile/sgemm.cpp) multiplies twice as many numbers at once in
# BF16 as in F16: prompts and drafts cost less, a single token the same.
_MAKES_BF16_FAST = "avx512_bf16"
# So much slower counts as fast.
_AS_FAST = 0.97
# What drafts yield depends on the text (`router.Kind`).
KINDS = ("code", "chat")


@dataclass(frozen=True, slots=True)
class Version:
    """A target in one number format.

    Attributes:
        name: of the model, or its file; of one that could be made, the number format.
        quantization: as llama.cpp calls it.
        bits_per_weight: over all tensors.
        lossy_source: what it was made from, if that had lost precision; None otherwise, or where its file
            does not say.
        plain_bytes, drafting_bytes: memory needed without and with drafters; None where drafters cannot be.
        fits, drafting_fits: whether there is so much.
        prompt_speed: tokens per second of reading a prompt; None where it does not fit, or was not measured.
        plain_speed: tokens per second, see `Forecast`; None where it does not fit, or nothing is known.
        drafting_speeds: the same with drafters, for each of KINDS; empty where there are none.
        seen: of these kinds, those whose speed follows from earlier replies, not from a first guess.
        is_measured: the plain speed follows from a calibration; otherwise from the size alone.
        is_present: the file is there.
        draft: the setting that it drafts with.
        command: what makes it, or measures what is not known yet; None where nothing is missing.
    """

    name: str
    quantization: str
    bits_per_weight: float
    lossy_source: str | None
    plain_bytes: int
    drafting_bytes: int | None
    fits: bool
    drafting_fits: bool
    prompt_speed: float | None
    plain_speed: float | None
    drafting_speeds: dict[str, float]
    seen: tuple[str, ...]
    is_measured: bool
    is_present: bool
    draft: str
    command: str | None

    def drafts_pay(self, kind: str) -> bool:
        """Whether such text is expected to be faster with drafts, by more than nobody notices."""
        return _AS_FAST * self.drafting_speeds.get(kind, 0.0) > (self.plain_speed or 0.0)

    def best_speed(self, kind: str) -> float:
        """With drafts where they pay; 0 where nothing is known."""
        return self.drafting_speeds[kind] if self.drafts_pay(kind) else self.plain_speed or 0.0

    def best_bytes(self, kind: str) -> int:
        """The memory that the best speed needs."""
        return self.drafting_bytes if self.drafts_pay(kind) and self.drafting_bytes else self.plain_bytes


@dataclass(frozen=True, slots=True)
class Comparison:
    """Versions of a target side by side.

    Attributes:
        versions: that are there or could be made, the smallest first.
        headroom_bytes: the memory that there is for one.
    """

    versions: list[Version]
    headroom_bytes: int


def compare(settings: EngineSettings, others: Sequence[str]) -> Comparison:
    """Weighs the versions of a target: those in the catalogue, those named, and those that could be made.

    Args:
        settings: of the target; the others are planned alike.
        others: names and files of further versions.

    Raises:
        ConfigError: one of the others is another model.
        ModelError: one of them is missing or damaged.
    """
    preparations = _with_drafters(_preparations(settings, others))
    versions = [_present(preparation) for preparation in preparations]
    versions += _makeable(preparations, versions)
    measured = [version for version in versions if version.is_measured]
    guessed = (_with_guess(version, measured) for version in versions)
    shown = (version if version.fits else _without_speeds(version) for version in guessed)
    ordered = sorted(shown, key=lambda version: version.plain_bytes)
    return Comparison(ordered, preparations[0].plan.headroom_bytes)


def advise(versions: Iterable[Version]) -> str:
    """What a user who has the memory should know, in one or two sentences a kind of text."""
    fitting = [version for version in versions if version.fits]
    if not fitting:
        return "None of them fits into this memory."
    known = [version for version in fitting if version.is_measured]
    if not known:
        return "Nothing was measured here yet: calibrate the versions, then compare again."
    kinds: dict[str, list[str]] = {}
    for kind in KINDS:
        kinds.setdefault(_advise(known, kind), []).append(kind)
    return " ".join(f"For {' and '.join(alike)}, {text}." for text, alike in kinds.items())


def _advise(known: Sequence[Version], kind: str) -> str:
    if len(known) == 1:
        return f"only {known[0].name} was measured here: {_speed(known[0], kind)}"
    most = max(version.best_speed(kind) for version in known)
    fast = [version for version in known if version.best_speed(kind) >= _AS_FAST * most]
    fastest = min(fast, key=lambda version: version.best_bytes(kind))
    smallest = min(known, key=lambda version: version.best_bytes(kind))
    text = f"{fastest.name} is the fastest here: {_speed(fastest, kind)}"
    if fastest is not smallest:
        other = f"{smallest.best_speed(kind):.1f} of {smallest.name}"
        return f"{text}, against {other}{_price(fastest, smallest, kind)}"
    plainly = fastest.plain_speed or 0.0
    better = [
        version
        for version in known
        if version.bits_per_weight > fastest.bits_per_weight
        and version.best_speed(kind) >= _AS_FAST * plainly
    ]
    if better:
        version = max(better, key=lambda one: one.bits_per_weight)
        text += (
            f". {version.name}{_how(version, kind)} is about as fast ({version.best_speed(kind):.1f}) as "
            f"{fastest.name} plainly{_price(version, fastest, kind)}"
        )
    return text


def _speed(version: Version, kind: str) -> str:
    is_guess = version.drafts_pay(kind) and kind not in version.seen
    about = "perhaps" if is_guess else "about"
    return f"{about} {version.best_speed(kind):.1f} tokens/s{_how(version, kind)}"


def _how(version: Version, kind: str) -> str:
    return " with drafts" if version.drafts_pay(kind) else " plainly"


def _price(version: Version, other: Version, kind: str) -> str:
    """What the larger of two costs, and whether it is worth more."""
    text = f", at {version.best_bytes(kind) / other.best_bytes(kind):.1f} times the memory"
    if version.lossy_source:
        return f"{text}; made from {version.lossy_source}, it has no more fidelity than that"
    if version.bits_per_weight > other.bits_per_weight:
        return f"{text}, and with more fidelity, unless it was made from a smaller file"
    return text


def _preparations(settings: EngineSettings, others: Sequence[str]) -> list[Preparation]:
    """The target first."""
    first = prepare(settings)
    found = {first.target.model.path.resolve(): first}
    for name in others:
        preparation = prepare(replace(settings, target=name))
        if not _is_same_model(preparation.target.facts, first.target.facts):
            raise ConfigError(
                f"{name} is another model than {settings.target}, not another number format of it.",
                hint=f"Leave out --with {name}.",
            )
        found.setdefault(preparation.target.model.path.resolve(), preparation)
    for name in _relatives(first.target.model):
        if resolve(name).path.resolve() not in found:
            preparation = prepare(replace(settings, target=name))
            # Drafters with fewer layers or tokens are made from a target as well.
            if _is_same_model(preparation.target.facts, first.target.facts):
                found[preparation.target.model.path.resolve()] = preparation
    return list(found.values())


def _is_same_model(one: ModelFacts, other: ModelFacts) -> bool:
    names = ("architecture", "num_layers", "embedding_length", "num_heads", "vocab_size")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _relatives(model: ResolvedModel) -> Iterator[str]:
    """Names and files that were made from this one, or that it was made from, and so on."""
    catalog = load_catalog()
    path = model.path.resolve()
    own = (name for name in catalog if model_path(name).resolve() == path)
    root = _origin(next(own, str(path)), catalog)
    if is_path(root) and Path(root).is_file():
        yield root
    for name in catalog:
        if _origin(name, catalog) == root and model_path(name).is_file():
            yield name


def _origin(name: str, catalog: Mapping[str, ModelEntry]) -> str:
    """The name or file at the beginning of what a model was made from."""
    seen: set[str] = set()
    while name not in seen and name in catalog and (made := catalog[name].made_from) is not None:
        seen.add(name)
        name = made.model
    return name


def _with_drafters(preparations: list[Preparation]) -> list[Preparation]:
    """Files that the catalogue does not know have no draft model of their own: they get the others'."""
    draft = next((one.draft for one in preparations if one.draft is not None), None)
    if draft is None:
        return preparations
    wanted = f"{NGRAM}+{draft.model.name}"
    return [
        _with_drafter(one, wanted)
        if one.draft is None and one.settings.draft == "auto" and one.settings.longest_draft
        else one
        for one in preparations
    ]


def _with_drafter(preparation: Preparation, wanted: str) -> Preparation:
    """With the draft model, unless that is known not to pay for this version."""
    drafting = prepare(replace(preparation.settings, draft=wanted))
    return preparation if is_hopeless(remembered_calibrations(drafting)) else drafting


def _present(preparation: Preparation) -> Version:
    header = preparation.target.header
    plain = next(option for option in preparation.plan.options if option.kind == "plain")
    forecast = foretell(preparation)
    command, draft = calibrate_command(preparation), preparation.settings.draft
    if forecast is not None and forecast.draft_is_hopeless:
        preparation = prepare(replace(preparation.settings, draft=NGRAM))
    drafts = preparation.reason == "on"
    wanted = "draft" if preparation.draft else NGRAM
    drafting = (option for option in preparation.plan.options if option.kind == wanted)
    option = preparation.option if drafts else next(drafting, None)
    is_known = forecast is not None and forecast.draft_is_measured
    speeds = _drafting_speeds(forecast) if forecast and is_known and drafts else {}
    return Version(
        name=preparation.target.model.name,
        quantization=file_type(header),
        bits_per_weight=bits_per_weight(header),
        lossy_source=lossy_source(header),
        plain_bytes=plain.price.needed_bytes,
        drafting_bytes=option.price.needed_bytes if option else None,
        fits=plain.fits,
        drafting_fits=drafts,
        prompt_speed=forecast.prompt_tokens_per_second if forecast else None,
        plain_speed=forecast.plain_tokens_per_second if forecast else None,
        drafting_speeds=speeds,
        seen=tuple(kind for kind in speeds if forecast and kind in forecast.usual_tokens_per_second),
        is_measured=forecast is not None,
        is_present=True,
        draft=draft,
        command=None if is_known else command,
    )


def _drafting_speeds(forecast: Forecast) -> dict[str, float]:
    """By what such texts yielded before; else the first guess."""
    usual, unseen = forecast.usual_tokens_per_second, forecast.unseen_tokens_per_second
    return {kind: usual.get(kind, unseen) for kind in KINDS}


def _makeable(preparations: Sequence[Preparation], present: Sequence[Version]) -> Iterator[Version]:
    """Larger ones for their speed with drafts, and smaller ones of what has lost no precision yet."""
    preparation, version = max(
        zip(preparations, present, strict=True), key=lambda pair: _is_faithful(pair[1])
    )
    header = preparation.target.header
    if read_trim(header) is not None:
        return
    # A draft model that does not pay for this version may for another one.
    drafting = preparation.option if preparation.reason == "on" else None
    there = {one.quantization for one in present}
    headroom_bytes = preparation.plan.headroom_bytes
    makeable = (*_MAKEABLE, "BF16") if _MAKES_BF16_FAST in cpu_features() else _MAKEABLE
    for name in makeable:
        more_bytes = quantized_bytes(header, name) - header.file_bytes
        is_useful = more_bytes < 0 if version.quantization in FULL_PRECISION else more_bytes > 0
        is_useful |= name == "BF16"
        if name in there or not is_useful:
            continue
        source = version.lossy_source or version.quantization
        plain_bytes = version.plain_bytes + more_bytes
        drafting_bytes = drafting.price.needed_bytes + more_bytes if drafting else None
        yield replace(
            _without_speeds(version),
            name=name,
            quantization=name,
            bits_per_weight=version.bits_per_weight * (1 + more_bytes / header.file_bytes),
            lossy_source=None if source in FULL_PRECISION else source,
            plain_bytes=plain_bytes,
            drafting_bytes=drafting_bytes,
            fits=plain_bytes <= headroom_bytes,
            drafting_fits=drafting_bytes is not None and drafting_bytes <= headroom_bytes,
            is_measured=False,
            is_present=False,
            command=f"homespec models quantize {shlex.quote(preparation.settings.target)} {name}",
        )


def _without_speeds(version: Version) -> Version:
    return replace(version, prompt_speed=None, plain_speed=None, drafting_speeds={}, seen=())


def _is_faithful(version: Version) -> bool:
    return version.quantization in FULL_PRECISION and version.lossy_source is None


def _with_guess(version: Version, measured: Sequence[Version]) -> Version:
    """Decoding reads all weights for each token, so that without a measurement speed goes with size."""
    if version.is_measured or not measured:
        return version
    near = min(measured, key=lambda one: abs(math.log(one.bits_per_weight / version.bits_per_weight)))
    speed = (near.plain_speed or 0.0) * near.bits_per_weight / version.bits_per_weight
    return replace(version, plain_speed=speed)
