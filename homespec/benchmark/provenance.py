"""Who measured what, and where: the parts of a session's record."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import homespec
from homespec.benchmark.records import Conditions, Machine, ModelFile, SessionRecord
from homespec.calibration.fingerprint import build_fingerprint, cpu_name
from homespec.catalog.digests import remembered_digest
from homespec.engine.preparing import Candidate, Preparation
from homespec.telemetry.machine import cpu_governor, read_memory


def describe_session(
    models: tuple[ModelFile, ...], settings: Conditions, arms: tuple[str, ...], started_at: datetime
) -> SessionRecord:
    """The first record."""
    return SessionRecord(
        version=homespec.__version__,
        commit=source_commit(),
        started_at=started_at.astimezone(UTC).isoformat(timespec="seconds"),
        machine=describe_machine(),
        build=build_fingerprint(),
        load=os.getloadavg(),
        models=models,
        settings=settings,
        arms=arms,
    )


def describe_machine() -> Machine:
    """This one."""
    return Machine(
        cpu=cpu_name(),
        num_cpus=os.cpu_count() or 1,
        memory_bytes=read_memory().bounds[0].limit_bytes,
        kernel=platform.release(),
        governor=cpu_governor(),
    )


def source_commit() -> str | None:
    """The commit of the source tree, with `-dirty` where files differ from it; None once installed."""
    tree = Path(homespec.__file__).parent.parent
    if not (tree / ".git").exists():
        return None
    command = ["git", "-C", str(tree), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return result.stdout.strip() or None


def describe_models(
    preparations: Iterable[Preparation], progress: Callable[[float], None]
) -> tuple[ModelFile, ...]:
    """Each model that takes part, once for each role.

    Args:
        preparations: whose models.
        progress: told the share of the bytes whose sha256 is known; a file that has not changed is not read.
    """
    models: dict[tuple[str, str], Candidate] = {}
    for preparation in preparations:
        models["target", preparation.target.model.name] = preparation.target
        if preparation.draft is not None and preparation.option.kind == "draft":
            models["draft", preparation.draft.model.name] = preparation.draft
    paths = {candidate.model.path: "" for candidate in models.values()}
    total_bytes = sum(path.stat().st_size for path in paths)

    def tell(before_bytes: int, done_bytes: int, _file_bytes: int) -> None:
        progress((before_bytes + done_bytes) / total_bytes)

    done_bytes = 0
    for path in paths:
        paths[path] = remembered_digest(path, partial(tell, done_bytes))
        done_bytes += path.stat().st_size
    return tuple(
        ModelFile(
            name=name,
            role=role,
            file=candidate.model.path.name,
            quantization=candidate.facts.quantization,
            size_bytes=candidate.model.path.stat().st_size,
            sha256=paths[candidate.model.path],
        )
        for (role, name), candidate in models.items()
    )
