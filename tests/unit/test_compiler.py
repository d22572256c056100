"""Which compiler wrote a library is read from the file, stripped or not."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from homespec.runtime.compiler import build_compiler, elf_comments, kernel_libraries, library_compiler


def _elf(order: str, comment: bytes) -> bytes:
    """A 64-bit ELF file with three sections: none, .shstrtab, .comment."""
    names = b"\0.shstrtab\0.comment\0"
    body = names + comment
    sections = [(0, 0, 0), (1, 64, len(names)), (11, 64 + len(names), len(comment))]
    table = b"".join(struct.pack(f"{order}I20xQQ24x", *section) for section in sections)
    start = b"\x7fELF\x02" + (b"\x01" if order == "<" else b"\x02") + bytes(34)
    start += struct.pack(f"{order}Q", 64 + len(body)) + bytes(10) + struct.pack(f"{order}HHH", 64, 3, 1)
    return start + body + table


@pytest.mark.parametrize("order", ["<", ">"])
def test_compilers_in_an_elf_file(order: str, tmp_path: Path) -> None:
    path = tmp_path / "library.so"
    path.write_bytes(_elf(order, b"GCC: 12\0clang 16\0GCC: 12\0"))
    assert elf_comments(path) == ["GCC: 12", "clang 16"]
    for length in (0, 3, 10, 63, 70, 150):
        path.write_bytes(_elf(order, b"GCC: 12\0")[:length])
        assert elf_comments(path) == []
    assert elf_comments(tmp_path / "missing") == []


def test_the_installed_build_names_its_compiler() -> None:
    assert build_compiler() == "" or any(name in build_compiler() for name in ("GCC", "clang"))


def test_clang_is_named_before_the_gcc_that_it_links_with(tmp_path: Path) -> None:
    path = tmp_path / "libggml-cpu.so"
    path.write_bytes(_elf("<", b"GCC: (Debian) 12\0Debian clang version 16.0.6\0"))
    assert library_compiler(path) == "Debian clang version 16.0.6"


@pytest.mark.parametrize(
    ("content", "name"), [(b"__kmpc_fork_call\0", "clang"), (b"GOMP_parallel\0", "GCC"), (b"none", "")]
)
def test_a_stripped_library_shows_its_compiler_by_its_openmp(
    content: bytes, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "libggml-cpu.so"
    path.write_bytes(_elf("<", b"") + content)
    assert library_compiler(path).partition(",")[0] == name
    assert library_compiler(tmp_path / "missing") == ""


def test_libraries_elsewhere_are_looked_at_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libggml-cpu.so").write_bytes(b"")
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path))
    assert kernel_libraries() == [tmp_path / "libggml-cpu.so"]
