from __future__ import annotations

import logging
import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest

from homespec.calibration import fingerprint
from homespec.calibration.costs import DrafterCosts, TargetCosts, WidthEquality
from homespec.calibration.curve import CostCurve
from homespec.calibration.fingerprint import cpu_name, model_identity
from homespec.calibration.store import (
    Calibration,
    CalibrationKey,
    calibration_path,
    load_calibration,
    make_key,
    stale_calibrations,
    store_calibration,
)

KEY = CalibrationKey("0123456789abcdef" * 2, 4, 4, "f16", True, True, "llama 1, GCC", "A CPU", "4 cores")
COSTS = TargetCosts(
    CostCurve((1, 2), (64, 1024), (1.0, 1.5), (1.1, 1.7)), 10.0, (WidthEquality(2, 64, False, 0.5),)
)
MEASURED = Calibration(KEY, "model.gguf", "Q4_0", 1000.0, False, COSTS)


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOMESPEC_STATE", str(tmp_path / "state"))


def test_nothing_is_stored_at_first() -> None:
    assert load_calibration(KEY) is None
    assert stale_calibrations(KEY) == []


def test_round_trip() -> None:
    path = store_calibration(MEASURED)
    assert path == calibration_path(KEY)
    assert load_calibration(KEY) == MEASURED
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_the_other_role_is_kept() -> None:
    store_calibration(MEASURED)
    drafter = DrafterCosts(0.1, 0.2, 30.0)
    store_calibration(replace(MEASURED, target=None, drafter=drafter))
    assert load_calibration(KEY) == replace(MEASURED, drafter=drafter)


def test_a_difference_makes_it_stale_and_is_told() -> None:
    store_calibration(MEASURED)
    newer = replace(MEASURED, key=replace(KEY, num_threads=2), measured_at=2000.0)
    store_calibration(newer)
    now = replace(KEY, num_threads=8, build="llama 2, clang")
    assert load_calibration(now) is None
    assert stale_calibrations(now) == [newer, MEASURED]
    assert now.differences(KEY) == ["threads: 4, now 8", "llama.cpp: llama 1, GCC, now llama 2, clang"]
    assert stale_calibrations(replace(KEY, model="f" * 32)) == []


def test_changes_in_one_line_leave_long_values_out() -> None:
    now = replace(KEY, num_threads=8, build="llama-cpp-python 1, GCC 12, " + "AVX " * 20)
    assert now.changes(KEY) == "threads: 4, now 8; another llama.cpp"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"format": 1}', b'{"format": 99}', b"\xff\xfe", b'{"format": 1, "key": 3}'],
)
def test_unreadable_files_are_ignored(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = store_calibration(MEASURED)
    path.write_bytes(content)
    with caplog.at_level(logging.DEBUG, logger="homespec"):
        assert load_calibration(KEY) is None
        assert stale_calibrations(replace(KEY, num_threads=1)) == []
    assert path.name in caplog.text
    store_calibration(MEASURED)
    assert load_calibration(KEY) == MEASURED


def _write_often(number: int) -> None:
    for turn in range(30):
        store_calibration(replace(MEASURED, measured_at=float(100 * number + turn)))


def test_concurrent_writers() -> None:
    store_calibration(MEASURED)
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_often, args=(number,)) for number in range(2)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert load_calibration(KEY) is not None
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert len(list(calibration_path(KEY).parent.iterdir())) == 1


def test_model_identity_sees_the_end_and_the_size(tmp_path: Path) -> None:
    content = bytes(range(256)) * 20_000
    changed = bytearray(content)
    changed[-1] ^= 1
    names = {}
    for name, data in {
        "a": content,
        "same": content,
        "b": bytes(changed),
        "c": content[:-1],
        "d": b"x",
    }.items():
        (tmp_path / name).write_bytes(data)
        names[name] = model_identity(tmp_path / name)
    assert names["a"] == names["same"]
    assert len(set(names.values())) == 4


def test_the_key_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "build_fingerprint", lambda: "a build")
    (tmp_path / "model.gguf").write_bytes(b"weights")
    key = make_key(
        tmp_path / "model.gguf", num_threads=3, num_batch_threads=None, kv_type="f16", repack=True, mmap=True
    )
    assert (key.num_threads, key.num_batch_threads, key.build) == (3, 3, "a build")
    assert key.cpu
    assert key.cpu_limits


def test_cpu_names(tmp_path: Path) -> None:
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/model").write_bytes(b"Raspberry Pi 5 Model B\0")
    assert cpu_name(tmp_path) == "Raspberry Pi 5 Model B"
    (tmp_path / "proc/cpuinfo").write_text("processor : 0\nmodel name\t: A CPU @ 3 GHz\n")
    assert cpu_name(tmp_path) == "A CPU @ 3 GHz"
