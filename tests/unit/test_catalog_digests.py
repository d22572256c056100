"""Digests of model files that are remembered."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from homespec.catalog import check, digests
from homespec.catalog.digests import remembered_digest
from homespec.runtime.state import STATE_VARIABLE


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """The files that are read; the state is empty."""
    seen: list[Path] = []
    hash_file = check.hash_file

    def counting(path: Path, progress: check.Progress | None = None) -> str:
        seen.append(path)
        return hash_file(path, progress)

    monkeypatch.setattr(digests, "hash_file", counting)
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    return seen


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_file_is_read_once(tmp_path: Path, reads: list[Path]) -> None:
    path, other, link = (tmp_path / name for name in ("a.gguf", "b.gguf", "link.gguf"))
    path.write_bytes(b"one")
    other.write_bytes(b"other")
    link.symlink_to(path)
    for _ in range(2):
        assert remembered_digest(path) == remembered_digest(link) == digest(b"one")
        assert remembered_digest(other) == digest(b"other")
    assert reads == [path, other]


def overwrite(path: Path) -> None:
    path.write_bytes(b"two")


def replace_with_the_same_times(path: Path) -> None:
    before = path.stat()
    # The old file stays, so that the new one cannot get its inode.
    path.rename(path.with_suffix(".old"))
    path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def lengthen_with_the_same_times(path: Path) -> None:
    before = path.stat()
    path.write_bytes(b"two and more")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "change", [overwrite, replace_with_the_same_times, lengthen_with_the_same_times], ids=lambda f: f.__name__
)
def test_a_file_that_changed_is_read_again(change: object, tmp_path: Path, reads: list[Path]) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"one")
    os.utime(path, ns=(1, 1))
    assert remembered_digest(path) == digest(b"one")
    assert callable(change)
    change(path)
    assert remembered_digest(path) == digest(path.read_bytes()) != digest(b"one")
    assert len(reads) == 2


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"state": 1, "sha256": 2}', "\x00"])
def test_a_damaged_store_is_written_anew(content: str, tmp_path: Path, reads: list[Path]) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"one")
    remembered_digest(path)
    (store,) = (tmp_path / "state" / "digests").iterdir()
    store.write_text(content)
    assert [remembered_digest(path) for _ in range(2)] == [digest(b"one")] * 2
    assert len(reads) == 2


def test_without_a_place_to_remember_it_is_read_every_time(
    tmp_path: Path, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"one")
    monkeypatch.setenv(STATE_VARIABLE, str(path))
    assert [remembered_digest(path) for _ in range(2)] == [digest(b"one")] * 2
    assert len(reads) == 2


def test_a_file_that_is_being_written_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    path = tmp_path / "a.gguf"
    path.write_bytes(b"one")

    def append_once(done_bytes: int, total_bytes: int) -> None:
        if path.stat().st_size == total_bytes == len(b"one"):
            with path.open("ab") as file:
                file.write(b"!")

    remembered_digest(path, append_once)
    assert remembered_digest(path) == digest(path.read_bytes())
