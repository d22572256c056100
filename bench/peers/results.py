"""Results: a file with one JSON object a line, added to as they come, so that a run can be taken up again.

`record` says what a line is: "session" begins every run of the program that measures something, "opened"
tells about an arm's worker, "run" is one reply, "failure" an arm that was left out.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import homespec
from bench.peers.arms import Arm
from bench.peers.prompts import Prompt
from bench.peers.protocol import Answer
from homespec.calibration.fingerprint import build_fingerprint, cpu_name
from homespec.catalog.digests import remembered_digest
from homespec.catalog.store import ResolvedModel
from homespec.errors import ConfigError
from homespec.runtime.cgroups import read_text

_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


class Key(NamedTuple):
    """What is measured once."""

    target: str
    suite: str
    number: int
    arm: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What must be the same in all runs that share a file.

    Attributes:
        max_tokens: the most tokens of a reply.
        temperature: 0 is greedy.
        context_tokens: size of every context.
        num_threads: of every program.
        draft: name of the draft model, if there is one.
    """

    max_tokens: int
    temperature: float
    context_tokens: int
    num_threads: int
    draft: str | None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One reply, as measured.

    Attributes:
        answer: the reply.
        order: the how-manieth of its target it was, since the program was started.
        idle_cpu_seconds: processor time that the workers of all other arms took meanwhile; it should be none.
        anonymous_bytes: of the worker, behind the reply.
    """

    answer: Answer
    order: int
    idle_cpu_seconds: float
    anonymous_bytes: int


class Results:
    """Reads and extends the file.

    Attributes:
        records: all lines.
        done: what is measured.
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        """Reads what is there.

        Args:
            path: of the file; it need not exist.
            settings: of all arms.

        Raises:
            ConfigError: the file is something else, or its results were measured with other settings.
        """
        self._path = path
        self._settings = settings
        self.records, self.done = _read(path, repair=True) if path.exists() else ([], set())
        for session in _sessions(self.records):
            if session["settings"] != asdict(settings):
                raise ConfigError(
                    f"{path} holds results with other settings: {session['settings']}.",
                    hint="Use the same settings, or name another file with --jsonl.",
                )

    def begin(self, models: Sequence[tuple[ResolvedModel, str]], arms: Iterable[Arm]) -> None:
        """Tells on what machine and with what models is measured from here on.

        Args:
            models: each with its role, target or draft.
            arms: that take part.
        """
        self._append(
            {
                "record": "session",
                "version": homespec.__version__,
                "commit": _commit(),
                "started_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "machine": _machine(),
                "build": build_fingerprint(),
                "load": os.getloadavg(),
                "models": [_describe(model, role) for model, role in models],
                "settings": asdict(self._settings),
                "arms": [arm.name for arm in arms],
            }
        )

    def opened(self, target: str, arm: Arm, facts: Mapping[str, object], anonymous_bytes: int) -> None:
        """Tells about an arm's worker, and the settings behind the arm's name."""
        record = {"record": "opened", "target": target, "arm": arm.name, "program": arm.program.name}
        settings = {"settings": dict(arm.settings), "facts": dict(facts)}
        self._append({**record, **settings, "rss_anon_bytes": anonymous_bytes})

    def failed(self, target: str, arm: Arm, error: str) -> None:
        """Tells that an arm was left out."""
        self._append({"record": "failure", "target": target, "arm": arm.name, "error": error})

    def add(self, target: str, prompt: Prompt, arm: Arm, measurement: Measurement) -> None:
        """Keeps a reply."""
        answer = measurement.answer
        self._append(
            {
                "record": "run",
                "target": target,
                "scenario": prompt.suite,
                "prompt": prompt.number,
                "repetition": 0,
                "arm": arm.name,
                "order": measurement.order,
                "warm_up": False,
                "tokens": answer.num_tokens,
                "prompt_tokens": answer.prompt_tokens,
                "seconds": answer.seconds,
                "ttft_seconds": answer.ttft_seconds,
                "decode_tokens": answer.decode_tokens,
                "decode_seconds": answer.decode_seconds,
                "prefill_seconds": answer.prompt_seconds,
                "num_draft_tokens": answer.num_draft_tokens,
                "num_accepted_tokens": answer.num_accepted_tokens,
                "rss_anon_bytes": measurement.anonymous_bytes,
                "idle_cpu_seconds": measurement.idle_cpu_seconds,
                "load": os.getloadavg()[0],
                "finish_reason": answer.finish_reason,
                "text_sha256": hashlib.sha256(answer.text.encode()).hexdigest(),
                **answer.details,
            }
        )
        self.done.add(Key(target, prompt.suite, prompt.number, arm.name))

    def _append(self, record: dict[str, Any]) -> None:
        self.records.append(record)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def read_together(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The records of several files, one after another.

    Raises:
        ConfigError: a file is something else; or what they hold cannot stand in one table, since it was
            measured with other settings, on another machine, or with another file of the same name.
    """
    records: list[dict[str, Any]] = []
    known: dict[str, tuple[object, Path]] = {}
    for path in paths:
        found, _ = _read(path, repair=False)
        records += found
        for session in _sessions(found):
            for what, value in _conditions(session).items():
                before, source = known.setdefault(what, (value, path))
                if before != value:
                    raise ConfigError(
                        f"{path} and {source} differ in {what}: {value} and {before}.",
                        hint="Make a table of each.",
                    )
    return records


def _conditions(session: Mapping[str, Any]) -> dict[str, object]:
    models = {f"the file of {model['name']} (sha256)": model["sha256"] for model in session["models"]}
    settings = {f"the setting {name}": value for name, value in session["settings"].items()}
    return {"the processor": session["machine"]["cpu"], **settings, **models}


def _sessions(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record for record in records if record["record"] == "session"]


def _read(path: Path, *, repair: bool) -> tuple[list[dict[str, Any]], set[Key]]:
    """All lines, and what is measured.

    Args:
        path: of the file.
        repair: take away a last line that was being written when the machine went down, so that others can be
            added; what it was about is measured again.

    Raises:
        ConfigError: the file is something else.
    """
    try:
        text = path.read_text(encoding="utf-8")
        whole, _, torn = text.rpartition("\n")
        records = [json.loads(line) for line in whole.splitlines()]
        done = {_key(record) for record in records if record["record"] == "run"}
        if torn and repair:
            path.write_text(f"{whole}\n" if whole else "", encoding="utf-8")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} holds no results of this program: {error}.", hint="Name another file."
        ) from error
    return records, done


def _key(record: Mapping[str, Any]) -> Key:
    return Key(record["target"], record["scenario"], record["prompt"], record["arm"])


def _machine() -> dict[str, object]:
    governor = read_text(_GOVERNOR)
    return {
        "cpu": cpu_name(),
        "num_cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "governor": governor.strip() if governor else None,
    }


def _describe(model: ResolvedModel, role: str) -> dict[str, object]:
    facts = {"name": model.name, "role": role, "file": model.path.name}
    size_bytes = model.path.stat().st_size
    return {**facts, "size_bytes": size_bytes, "sha256": remembered_digest(model.path)}


def _commit() -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
