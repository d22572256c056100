"""Calibrations on disk: one JSON file for each combination of model, settings, build and machine."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from homespec.calibration.costs import DrafterCosts, TargetCosts
from homespec.calibration.fingerprint import build_name, cpu_limits, cpu_name, fingerprint, model_identity
from homespec.calibration.threads import chosen_threads
from homespec.runtime.atomic import write_atomically
from homespec.runtime.state import state_directory

_logger = logging.getLogger(__name__)
_FORMAT = 1
_MOST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class CalibrationKey:
    """Everything that the measured figures depend on.

    Attributes:
        model, build, cpu, cpu_limits: see `fingerprint.Fingerprint`.
        num_threads, num_batch_threads: for decodes of one token, and of several.
        kv_type: of the KV cache.
        repack, mmap: how the weights are loaded.
    """

    model: str
    num_threads: int
    num_batch_threads: int
    kv_type: str
    repack: bool
    mmap: bool
    build: str
    cpu: str
    cpu_limits: str

    def differences(self, other: CalibrationKey) -> list[str]:
        """What another key says differently, such as `threads: 4, now 2`."""
        return [
            f"{_LABELS[field.name]}: {getattr(other, field.name)}, now {getattr(self, field.name)}"
            for field in fields(self)
            if getattr(self, field.name) != getattr(other, field.name)
        ]

    def changes(self, other: CalibrationKey) -> str:
        """The same in one line: long values are left out."""
        return "; ".join(
            text if len(text) <= _MOST_SHOWN else f"another {text.partition(':')[0]}"
            for text in self.differences(other)
        )


_LABELS = {
    "model": "model file",
    "num_threads": "threads",
    "num_batch_threads": "batch threads",
    "kv_type": "KV cache",
    "repack": "repacking",
    "mmap": "mapping",
    "build": "llama.cpp",
    "cpu": "processor",
    "cpu_limits": "usable cores",
}


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured under a key.

    Attributes:
        key: what it depends on.
        file_name, quantization: of the model, for people.
        measured_at: seconds since 1970.
        thorough: whether the long form measured it.
        target: costs as a target, if measured.
        drafter: costs as a draft model, if measured.
    """

    key: CalibrationKey
    file_name: str
    quantization: str
    measured_at: float
    thorough: bool
    target: TargetCosts | None = None
    drafter: DrafterCosts | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data, for `from_json`."""
        return {
            "format": _FORMAT,
            "key": asdict(self.key),
            "file_name": self.file_name,
            "quantization": self.quantization,
            "measured_at": self.measured_at,
            "thorough": self.thorough,
            "target": self.target.to_json() if self.target else None,
            "drafter": self.drafter.to_json() if self.drafter else None,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Calibration:
        """The inverse of `to_json`.

        Raises:
            ValueError, KeyError, TypeError, AttributeError: it is something else.
        """
        if data["format"] != _FORMAT:
            raise ValueError(f"format {data['format']}, not {_FORMAT}")
        return cls(
            key=CalibrationKey(**data["key"]),
            file_name=str(data["file_name"]),
            quantization=str(data["quantization"]),
            measured_at=float(data["measured_at"]),
            thorough=data["thorough"] is True,
            target=TargetCosts.from_json(data["target"]) if data["target"] else None,
            drafter=DrafterCosts.from_json(data["drafter"]) if data["drafter"] else None,
        )


def make_key(
    path: Path,
    *,
    num_threads: int | None,
    num_batch_threads: int | None,
    kv_type: str,
    repack: bool,
    mmap: bool,
) -> CalibrationKey:
    """The key of a model on this machine, with the thread counts that opening it would choose.

    Args:
        path: the model file.
        num_threads: as in the settings, see `threads.chosen_threads`.
        num_batch_threads: as in the settings.
        kv_type: of its KV cache.
        repack: as in the settings.
        mmap: as in the settings.

    Raises:
        OSError: the model file cannot be read.
    """
    here = fingerprint(path)
    threads = chosen_threads(here, num_threads, num_batch_threads)
    return CalibrationKey(
        model=here.model,
        num_threads=threads.single,
        num_batch_threads=threads.batch,
        kv_type=kv_type,
        repack=repack,
        mmap=mmap,
        build=here.build,
        cpu=here.cpu,
        cpu_limits=here.cpu_limits,
    )


def calibration_path(key: CalibrationKey) -> Path:
    """Where the calibration of this key is stored."""
    digest = hashlib.sha256(json.dumps(asdict(key), sort_keys=True).encode()).hexdigest()
    return _directory() / f"{key.model[:16]}-{digest[:16]}.json"


def load_calibration(key: CalibrationKey) -> Calibration | None:
    """What is stored under a key; None when nothing is, or nothing that can be read."""
    found = _read(calibration_path(key))
    return found if found is not None and found.key == key else None


def remembered_calibration(path: Path, *, kv_type: str, repack: bool, mmap: bool) -> Calibration | None:
    """The newest calibration of a model file on this machine and build, without loading llama.cpp.

    Args:
        path: the model file.
        kv_type: of its KV cache.
        repack: as in the settings.
        mmap: as in the settings.
    """
    cpu, limits, build = cpu_name(), cpu_limits(), build_name()
    fitting = (
        found
        for found in _read_all(model_identity(path))
        if (found.key.cpu, found.key.cpu_limits) == (cpu, limits)
        and (found.key.kv_type, found.key.repack, found.key.mmap) == (kv_type, repack, mmap)
        and found.key.build.startswith(build)
    )
    return max(fitting, key=lambda found: found.measured_at, default=None)


def stale_calibrations(key: CalibrationKey) -> list[Calibration]:
    """Calibrations of the same model under other keys, newest first; `key.differences` says what changed."""
    others = [found for found in _read_all(key.model) if found.key != key]
    return sorted(others, key=lambda found: found.measured_at, reverse=True)


def store_calibration(calibration: Calibration) -> Path:
    """Stores a calibration; the role that it does not tell about is kept from the one before.

    Raises:
        OSError: the state directory cannot be written.
    """
    before = load_calibration(calibration.key)
    if before is not None:
        calibration = replace(
            calibration,
            target=calibration.target or before.target,
            drafter=calibration.drafter or before.drafter,
        )
    path = calibration_path(calibration.key)
    write_atomically(path, json.dumps(calibration.to_json(), indent=1))
    return path


def _directory() -> Path:
    return state_directory() / "calibration"


def _read_all(model: str) -> Iterator[Calibration]:
    for path in sorted(_directory().glob(f"{model[:16]}-*.json")):
        found = _read(path)
        if found is not None and found.key.model == model:
            yield found


def _read(path: Path) -> Calibration | None:
    try:
        return Calibration.from_json(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        # It is a cache of measurements: the next calibration writes it anew.
        _logger.debug("%s is ignored: %s: %s", path, type(error).__name__, error)
        return None
