"""When a machine is not fit to be measured on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from homespec.benchmark import state
from homespec.calibration.fingerprint import Fingerprint
from homespec.calibration.store import Calibration, CalibrationKey, load_calibration, store_calibration
from homespec.calibration.threads import ThreadComparison, ThreadTimes, load_comparison, store_comparison
from homespec.catalog.digests import remembered_digest
from homespec.errors import ResourceError
from homespec.runtime.state import state_directory
from homespec.telemetry.thermal import was_throttled


@pytest.fixture
def cpu_times(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes the machine seem loaded in the last minute, and in the last second as busy as asked for."""

    def set_busy(percent: int) -> None:
        readings: Iterator[tuple[int, int]] = iter([(0, 0), (percent, 100)])
        monkeypatch.setattr(state, "is_busy", lambda: True)
        monkeypatch.setattr(state, "read_cpu_times", lambda: next(readings))
        monkeypatch.setattr(state, "_LOOK_SECONDS", 0.0)

    return set_busy


def test_load_is_refused(cpu_times: Callable[[int], None]) -> None:
    cpu_times(60)
    with pytest.raises(ResourceError, match="keep 60% of the CPUs busy") as refusal:
        state.refuse_load()
    assert "--anyway" in refusal.value.hint


def test_load_that_has_ended_is_none(cpu_times: Callable[[int], None]) -> None:
    cpu_times(5)
    state.refuse_load()


def test_files_that_are_not_in_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(bytes(1000))
    monkeypatch.setattr(state, "resident_bytes", lambda path: 600)
    with pytest.raises(ResourceError, match="Only 60% of the model files"):
        state.refuse_cold_files([file])
    monkeypatch.setattr(state, "resident_bytes", lambda path: 1000)
    state.refuse_cold_files([file])
    monkeypatch.setattr(state, "resident_bytes", lambda path: None)
    state.refuse_cold_files([file])


def test_files_that_stay_in_memory_cannot_be_cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(bytes(1000))
    dropped: list[int] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *arguments: dropped.append(arguments[3]))
    for resident in (500, None):
        monkeypatch.setattr(state, "resident_bytes", lambda path, resident=resident: resident)
        with pytest.raises(ResourceError, match="--cold is not possible here"):
            state.drop_from_cache([file])
    monkeypatch.setattr(state, "resident_bytes", lambda path: 0)
    state.drop_from_cache([file])
    assert dropped == [os.POSIX_FADV_DONTNEED] * 3


def test_throttling_between_two_looks() -> None:
    assert was_throttled(None, None) is None
    assert was_throttled("none", "none") is False
    assert was_throttled("none", "undervoltage") is True
    assert was_throttled("throttled", "throttled") is True
    count = "3 times since the machine started"
    assert was_throttled(count, count) is False
    assert was_throttled(count, "4 times since the machine started") is True


def test_fresh_engines_see_and_keep_what_was_measured_and_no_experience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_target: Path
) -> None:
    monkeypatch.setenv("HOMESPEC_STATE", str(tmp_path))
    (tmp_path / "experience").mkdir()
    (tmp_path / "experience" / "known.json").touch()
    key = CalibrationKey("model", 1, 1, "f16", True, True, "build", "cpu", "limits")
    here, times = Fingerprint("model", "build", "cpu", "limits"), ThreadTimes(1, 1.0, 1.0)
    with state.experience(fresh=True):
        assert not (state_directory() / "experience").exists()
        store_calibration(Calibration(key, "model.gguf", "Q4_0", 1000.0, False))
        store_comparison(here, ThreadComparison((times,)))
        remembered_digest(tiny_target)
    assert state_directory() == tmp_path
    assert load_calibration(key) is not None
    assert load_comparison(here) is not None
    assert len(list((tmp_path / "digests").iterdir())) == 1
