"""Other number formats: whole files or none, the same every time, and what is said about them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from homespec.catalog.gguf_header import read_header
from homespec.catalog.quantizations import bits_per_weight, file_type, lossy_source, quantized_bytes
from homespec.errors import ConfigError, DiskSpaceError, HomespecError, ModelFormatError
from homespec.runtime.model import LlamaModel
from homespec.runtime.quantize import FILE_TYPES, Form, check_file_type, quantize
from homespec.runtime.vocabulary import Vocabulary
from tests.support.opened import logits_after


@pytest.mark.parametrize("name", sorted(FILE_TYPES))
def test_every_type_loads_and_its_size_was_foretold(name: str, tiny_target: Path, tmp_path: Path) -> None:
    path = tmp_path / "made.gguf"
    quantize(tiny_target, path, Form(name), notes={"homespec.version": "1"})
    header, source = read_header(path), read_header(tiny_target)
    assert file_type(header) == name
    assert header.text("homespec.version") == "1"
    # The metadata grow by the notes and shrink by nothing; rows of 64 hold no blocks of 256.
    assert abs(quantized_bytes(source, name) - header.file_bytes) < 0.03 * header.file_bytes
    with LlamaModel(path) as model:
        assert isinstance(model.vocabulary, Vocabulary)


@pytest.mark.parametrize("name", ["F32", "F16", "Q8_0", "Q4_0", "Q4_1", "IQ4_NL"])
def test_pure_is_one_format_and_its_tensors_have_the_foretold_size(
    name: str, tiny_target: Path, tmp_path: Path
) -> None:
    path = tmp_path / "made.gguf"
    quantize(tiny_target, path, Form(name, pure=True))
    header, source = read_header(path), read_header(tiny_target)
    assert {tensor.type_name for tensor in header.tensors} == {name, "F32"}
    foretold = quantized_bytes(source, name, pure=True) - source.data_offset
    assert foretold == header.file_bytes - header.data_offset


def test_the_same_bytes_whatever_the_threads_and_what_was_there(tiny_target: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.gguf", tmp_path / "b.gguf"
    second.write_bytes(b"something else")
    quantize(tiny_target, first, Form("Q4_0", num_threads=1))
    quantize(tiny_target, second, Form("Q4_0", num_threads=2))
    assert first.read_bytes() == second.read_bytes()


def test_f32_keeps_the_logits(tiny_target: Path, tmp_path: Path) -> None:
    quantize(tiny_target, tmp_path / "made.gguf", Form("F32"))
    tokens = [1, 70, 80, 90]
    assert (logits_after(tmp_path / "made.gguf", tokens) == logits_after(tiny_target, tokens)).all()


def test_progress_rises_to_the_end(tiny_target: Path, tmp_path: Path) -> None:
    shares: list[float] = []
    quantize(tiny_target, tmp_path / "made.gguf", Form("Q8_0"), progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def _leaves_nothing(directory: Path, *names: str) -> bool:
    return sorted(path.name for path in directory.iterdir()) == sorted(names)


def test_a_refused_file_leaves_what_was_there(tiny_target: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(tiny_target.read_bytes()[:200_000])
    made = tmp_path / "made.gguf"
    made.write_bytes(b"before")
    with pytest.raises(ModelFormatError, match=r"cut\.gguf"):
        quantize(cut, made, Form("Q8_0"))
    assert made.read_bytes() == b"before"
    assert _leaves_nothing(tmp_path, "cut.gguf", "made.gguf")


def test_an_interrupted_one_leaves_nothing(tiny_target: Path, tmp_path: Path) -> None:
    def interrupt(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quantize(tiny_target, tmp_path / "made.gguf", Form("Q8_0"), progress=interrupt)
    assert _leaves_nothing(tmp_path)


def test_when_the_parent_is_killed_the_child_tidies_up(tiny_target: Path, tmp_path: Path) -> None:
    """The parent dies between two lines of progress; the child finds nobody to tell, and deletes its file."""
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from homespec.runtime.quantize import Form, quantize\n"
        "quantize(Path(sys.argv[1]), Path(sys.argv[2]), Form('Q8_0'),"
        " progress=lambda share: os.kill(os.getpid(), signal.SIGKILL))"
    )
    command = [sys.executable, "-c", script, str(tiny_target), str(tmp_path / "made.gguf")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    deadline = time.monotonic() + 20
    # So small a file may be finished before the pipe is found broken: then it has no name of a model.
    while any(tmp_path.glob("*.gguf")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(tmp_path.glob("[!.]*"))


def test_no_room_is_found_before(tiny_target: Path, tmp_path: Path) -> None:
    with pytest.raises(DiskSpaceError, match="needs"):
        quantize(tiny_target, tmp_path / "made.gguf", Form("Q8_0"), needed_bytes=1 << 60)
    assert _leaves_nothing(tmp_path)


def test_a_directory_that_cannot_be_written(tiny_target: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    tmp_path.chmod(0o500)
    with pytest.raises(Exception, match="cannot be written"):
        quantize(tiny_target, tmp_path / "made.gguf", Form("Q8_0"))


def test_a_place_below_a_file_cannot_be_written(tiny_target: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(HomespecError, match="cannot be written"):
        quantize(tiny_target, tmp_path / "file" / "made.gguf", Form("Q8_0"))


def test_unknown_types_name_the_known() -> None:
    assert check_file_type("q4_k_m") == "Q4_K_M"
    with pytest.raises(ConfigError, match="Q9") as error:
        check_file_type("Q9")
    assert "Q4_K_M" in error.value.hint


def test_facts_of_a_file(tiny_target: Path, tmp_path: Path) -> None:
    shutil.copy(tiny_target, tmp_path / "a.gguf")
    assert bits_per_weight(read_header(tmp_path / "a.gguf")) == 32
    assert lossy_source(read_header(tmp_path / "a.gguf")) is None
    assert file_type(read_header(tmp_path / "a.gguf")) == "F32"
