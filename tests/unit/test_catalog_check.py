"""What is said about a file that is no model."""

from __future__ import annotations

from pathlib import Path

import pytest

from homespec.catalog.check import check_file, hash_file
from homespec.errors import ChecksumError, ModelFormatError, ModelNotFoundError
from tests.support.fake_index import entry_for


def test_a_good_file(tiny_target: Path) -> None:
    entry = entry_for(tiny_target.read_bytes())
    seen: list[tuple[int, int]] = []
    header = check_file(tiny_target, entry, progress=lambda done, total: seen.append((done, total)))
    assert header.architecture == "llama"
    assert seen[-1] == (entry.size_bytes, entry.size_bytes)
    assert check_file(tiny_target).architecture == "llama"
    assert hash_file(tiny_target) == entry.sha256


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n<!DOCTYPE html><html>Not found</html>", "is a web page of 38 bytes"),
        (b"<html><body>Please log in</body></html>", "is a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "is a Git LFS pointer"),
        (b"PK\x03\x04" + bytes(100), r"is not a GGUF model: it begins with b'PK"),
        (b"tjgg" + bytes(100), "GGML format of 2023"),
        (b"GGUF\x01\x00\x00\x00" + bytes(100), "GGUF version is 1"),
        (b"GGUF", "has 4"),
    ],
)
def test_other_things(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelFormatError, match=said) as caught:
        check_file(path)
    assert "model.gguf" in caught.value.message
    assert caught.value.hint


def test_no_file_and_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="There is no file"):
        check_file(tmp_path / "gone.gguf")
    with pytest.raises(ModelFormatError, match="is a directory"):
        check_file(tmp_path)


def test_a_truncated_file(tmp_path: Path, tiny_target: Path) -> None:
    content = tiny_target.read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelFormatError, match=rf"{len(content) // 2:,}"):
        check_file(path)
    with pytest.raises(ChecksumError, match="it was cut short") as caught:
        check_file(path, entry_for(content))
    assert caught.value.hint == "homespec models pull tiny"


def test_other_content_of_the_same_size(tmp_path: Path, tiny_target: Path) -> None:
    content = tiny_target.read_bytes()
    path = tmp_path / "changed.gguf"
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ChecksumError, match="right size but other content"):
        check_file(path, entry_for(content))
    with pytest.raises(ChecksumError, match="it is another file"):
        check_file(path, entry_for(content[:-1]))
    with pytest.raises(ChecksumError, match=r"^the file from there has"):
        check_file(path, entry_for(content[:-1]), shown_as="the file from there")
