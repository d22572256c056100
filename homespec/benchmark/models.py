"""The models of one target, in the state in which every arm is to find them: all warm, or all cold."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import NamedTuple, Protocol

from homespec.benchmark.arms import Arm
from homespec.benchmark.state import drop_from_cache, refuse_cold_files, resident_share
from homespec.engine.engine import Engine
from homespec.engine.preparing import Preparation
from homespec.engine.settings import EngineSettings


class Ready(NamedTuple):
    """An engine about to answer.

    Attributes:
        engine: its KV caches are empty.
        open_seconds: what opening it took, where that belongs to the reply.
        resident_share: of its files, in memory before that; None where the system does not tell.
    """

    engine: Engine
    open_seconds: float
    resident_share: float | None


class Models(Protocol):
    """Makes models ready for replies."""

    def ready(self, arm: Arm) -> contextlib.AbstractContextManager[Ready]:
        """For one reply of an arm."""

    def check(self) -> None:
        """Looks whether the arms still meet equal conditions.

        Raises:
            ResourceError: they do not.
        """


class WarmModels:
    """Opened once for all replies. The session's caches are fresh for each; the files are in memory."""

    def __init__(self, engine: Engine, files: Sequence[Path]) -> None:
        self._engine = engine
        self._files = files

    @contextlib.contextmanager
    def ready(self, arm: Arm) -> Iterator[Ready]:
        """See `Models`."""
        self._engine.forget()
        yield Ready(self._engine, 0.0, resident_share(self._files))

    def check(self) -> None:
        """See `Models`."""
        refuse_cold_files(self._files)


class ColdModels:
    """Opened anew for each reply, from files that are not in memory, and only those that the arm needs.

    What is mapped cannot be dropped from memory, so the models of the last reply are closed before. Opening
    them belongs to a cold start and so to the reply's time.
    """

    def __init__(self, settings: EngineSettings, files: Sequence[Path]) -> None:
        self._settings = settings
        self._files = files

    @contextlib.contextmanager
    def ready(self, arm: Arm) -> Iterator[Ready]:
        """See `Models`."""
        drop_from_cache(self._files)
        share = resident_share(self._files)
        start = perf_counter()
        with Engine(replace(self._settings, draft=self._draft(arm))) as engine:
            yield Ready(engine, perf_counter() - start, share)

    def check(self) -> None:
        """Nothing to look at: `ready` sees to it."""

    def _draft(self, arm: Arm) -> str:
        if arm.fixed is None or "draft-model" in arm.drafters:
            return self._settings.draft
        return "ngram" if arm.drafters else "off"


def model_files(preparation: Preparation) -> list[Path]:
    """The files that are opened: the target's, and the draft model's where one is planned."""
    files = [preparation.target.model.path]
    if preparation.draft is not None and preparation.option.kind == "draft":
        files.append(preparation.draft.model.path)
    return files
