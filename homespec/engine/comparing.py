"""Which number format of a target is best here, drafts included? Imports neither llama.cpp nor NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from homespec.catalog.entries import load_catalog
from homespec.catalog.gguf_header import read_header
from homespec.catalog.quantizations import (
    FULL_PRECISION,
    bits_per_weight,
    file_type,
    lossy_source,
    quantized_bytes,
)
from homespec.catalog.store import model_path, resolve
from homespec.engine.forecast import Forecast, foretell
from homespec.engine.preparing import NGRAM, Preparation, prepare
from homespec.engine.settings import EngineSettings

# What may be made where it is not there: everything between needs a judgement of quality that nobody made.
_MAKEABLE = ("Q8_0", "F16")
# So much slower counts as fast.
_AS_FAST = 0.97


@dataclass(frozen=True, slots=True)
class Version:
    """A target in one number format.

    Attributes:
        name: of the model, or its file; of one that could be made, the number format.
        quantization: as llama.cpp calls it.
        bits_per_weight: over all tensors.
        lossy_source: what it was made from, if that had lost precision; None otherwise.
        plain_bytes, drafting_bytes: memory needed without and with drafters; None where that is not planned.
        fits: whether there is so much for plain decoding.
        plain_speed, drafting_speed: tokens per second; None where nothing is known.
        is_measured: the speeds follow from a calibration; otherwise from the size alone.
        is_present: the file is there.
    """

    name: str
    quantization: str
    bits_per_weight: float
    lossy_source: str | None
    plain_bytes: int
    drafting_bytes: int | None
    fits: bool
    plain_speed: float | None
    drafting_speed: float | None
    is_measured: bool
    is_present: bool

    @property
    def best_speed(self) -> float:
        """With or without drafts; 0 where nothing is known."""
        return max(self.plain_speed or 0.0, self.drafting_speed or 0.0)


def compare(settings: EngineSettings, others: Sequence[str]) -> list[Version]:
    """The versions of a target that are there or could be made, the smallest first.

    Args:
        settings: of the target; the others are planned alike.
        others: names and files of further versions.

    Raises:
        ModelError: one of them is missing or damaged.
    """
    first = prepare(settings)
    draft = settings.draft
    if draft == "auto" and first.draft is not None:
        # Files that the catalogue does not know have no drafter of their own.
        draft = f"{NGRAM}+{first.draft.model.path}"
    preparations = [first]
    for name in dict.fromkeys([*_relatives(settings.target), *others]):
        if resolve(name).path != first.target.model.path:
            preparations.append(prepare(replace(settings, target=name, draft=draft)))
    versions = [_present(preparation) for preparation in preparations]
    versions += _makeable(first, {version.quantization for version in versions})
    measured = next((version for version in versions if version.is_measured), None)
    guessed = [version if measured is None else _with_guess(version, measured) for version in versions]
    return sorted(guessed, key=lambda version: version.plain_bytes)


def advise(versions: Iterable[Version]) -> str:
    """What a user who has the memory should know, in one or two sentences."""
    known = [version for version in versions if version.is_measured and version.fits]
    if not known:
        return "Nothing was measured here yet: calibrate the versions, then compare again."
    fastest = max(known, key=lambda version: version.best_speed)
    text = f"{fastest.name} is the fastest here: about {fastest.best_speed:.1f} tokens/s{_how(fastest)}."
    better = [
        version
        for version in known
        if version.bits_per_weight > fastest.bits_per_weight
        and version.best_speed >= _AS_FAST * (fastest.plain_speed or 0.0)
    ]
    if better:
        version = max(better, key=lambda one: one.bits_per_weight)
        ratio = version.plain_bytes / fastest.plain_bytes
        text += (
            f" {version.name}{_how(version)} reaches {version.best_speed:.1f}, no less than {fastest.name} "
            f"plainly, for {ratio:.1f} times the memory"
        )
        source = version.lossy_source
        text += (
            f"; made from {source}, it has no more fidelity than that." if source else " and more fidelity."
        )
    return text


def _how(version: Version) -> str:
    return " with drafts" if (version.drafting_speed or 0.0) > (version.plain_speed or 0.0) else " plainly"


def _relatives(target: str) -> Iterator[str]:
    """Names of installed targets that were made from this one, or that it was made from, and so on."""
    catalog = load_catalog()
    entry = resolve(target).entry
    if entry is None:
        return

    def origin(name: str) -> str:
        made = catalog[name].made_from if name in catalog else None
        return origin(made.model) if made is not None else name

    root = origin(entry.name)
    for name, other in catalog.items():
        if other.role == "target" and origin(name) == root and model_path(name).is_file():
            yield name


def _present(preparation: Preparation) -> Version:
    header = preparation.target.header
    plain = next(option for option in preparation.plan.options if option.kind == "plain")
    forecast = foretell(preparation)
    if forecast is not None and forecast.draft_is_hopeless:
        preparation = prepare(replace(preparation.settings, draft=NGRAM))
    drafts = preparation.reason == "on"
    return Version(
        name=preparation.target.model.name,
        quantization=file_type(header),
        bits_per_weight=bits_per_weight(header),
        lossy_source=lossy_source(header),
        plain_bytes=plain.price.needed_bytes,
        drafting_bytes=preparation.option.price.needed_bytes if drafts else None,
        fits=plain.fits,
        plain_speed=forecast.plain_tokens_per_second if forecast else None,
        drafting_speed=_drafting_speed(forecast) if forecast and drafts else None,
        is_measured=forecast is not None,
        is_present=True,
    )


def _drafting_speed(forecast: Forecast) -> float:
    """Over the kinds of text that were seen, each as much as the others; else the first guess."""
    speeds = list(forecast.tokens_per_second.values())
    if not speeds:
        return forecast.unseen_tokens_per_second
    return math.exp(sum(map(math.log, speeds)) / len(speeds))


def _makeable(first: Preparation, present: set[str]) -> Iterator[Version]:
    header = read_header(first.target.model.path)
    plain = next(option for option in first.plan.options if option.kind == "plain")
    for name in _MAKEABLE:
        file_bytes = quantized_bytes(header, name)
        if name in present or file_bytes <= header.file_bytes:
            continue
        needed_bytes = plain.price.needed_bytes + file_bytes - header.file_bytes
        source = lossy_source(header) or file_type(header)
        yield Version(
            name=name,
            quantization=name,
            bits_per_weight=bits_per_weight(header) * file_bytes / header.file_bytes,
            lossy_source=None if source in FULL_PRECISION else source,
            plain_bytes=needed_bytes,
            drafting_bytes=None,
            fits=needed_bytes <= first.plan.headroom_bytes,
            plain_speed=None,
            drafting_speed=None,
            is_measured=False,
            is_present=False,
        )


def _with_guess(version: Version, measured: Version) -> Version:
    """Decoding reads all weights for each token, so that without a measurement speed goes with size."""
    if version.is_measured or measured.plain_speed is None:
        return version
    speed = measured.plain_speed * measured.bits_per_weight / version.bits_per_weight
    return replace(version, plain_speed=speed)
