"""Which compiler wrote the kernels of the installed llama.cpp, found without loading it.

The compiler decides what decodes of several tokens cost: with clang 16 those of Q4_K models took 10 to 20%
less time than with GCC 12 on the machines that were measured (bench/builds.py).
"""

from __future__ import annotations

import functools
import importlib.util
import os
import struct
from pathlib import Path
from typing import BinaryIO

_MOST_COMMENT_BYTES = 1 << 16
# Builds are stripped, and LLVM's strip takes the compiler's signature as well. What remains are the calls
# into the OpenMP library that each compiler brings.
_OPENMP_CALLS = {b"__kmpc_fork_call": "clang, version unknown", b"GOMP_parallel": "GCC, version unknown"}


@functools.cache
def build_compiler() -> str:
    """The compilers of ggml's kernels, such as `GCC: (Debian 12.2.0-14) 12.2.0`; empty if unknown."""
    for path in kernel_libraries():
        return library_compiler(path)
    return ""


def kernel_libraries() -> list[Path]:
    """Where ggml's CPU kernels are, in llama-cpp-python or where its LLAMA_CPP_LIB_PATH points."""
    elsewhere = os.environ.get("LLAMA_CPP_LIB_PATH")
    spec = importlib.util.find_spec("llama_cpp")  # finds, and does not import
    places = [Path(place, "lib") for place in (spec.submodule_search_locations if spec else None) or ()]
    directories = [Path(elsewhere)] if elsewhere else places
    return [path for directory in directories for path in sorted(directory.glob("libggml-cpu*.so*"))]


def library_compiler(path: Path) -> str:
    """What compiled a library; empty if unknown. Libraries of clang name the GCC that they link with, too."""
    comments = elf_comments(path)
    clang = [comment for comment in comments if "clang" in comment]
    if comments:
        return ", ".join(clang or comments)
    try:
        content = path.read_bytes()
    except OSError:
        return ""
    return next((name for call, name in _OPENMP_CALLS.items() if call in content), "")


def elf_comments(path: Path) -> list[str]:
    """The distinct strings in an ELF file's .comment section, sorted; none if there is no such section."""
    try:
        with path.open("rb") as file:
            content = _section(file, b".comment")
    except (OSError, struct.error):
        return []
    texts = {text.decode("utf-8", "replace").strip() for text in content.split(b"\0")}
    return sorted(texts - {""})


def _section(file: BinaryIO, name: bytes) -> bytes:
    """The content of a section (elf(5)); empty when there is none, or the file is not 64-bit ELF."""
    start = file.read(64)
    if start[:5] != b"\x7fELF\x02":
        return b""
    order = "<" if start[5] == 1 else ">"
    (table_offset,) = struct.unpack_from(f"{order}Q", start, 40)
    entry_bytes, num_entries, names_index = struct.unpack_from(f"{order}HHH", start, 58)
    headers: list[tuple[int, int, int]] = []  # name, offset, size
    for number in range(num_entries):
        file.seek(table_offset + number * entry_bytes)
        header = file.read(40)
        headers.append(struct.unpack_from(f"{order}I20xQQ", header))
    if names_index >= len(headers):
        return b""
    _, names_offset, names_bytes = headers[names_index]
    file.seek(names_offset)
    names = file.read(min(names_bytes, _MOST_COMMENT_BYTES))
    for name_offset, offset, size in headers:
        if names[name_offset:].split(b"\0", 1)[0] == name:
            file.seek(offset)
            return file.read(min(size, _MOST_COMMENT_BYTES))
    return b""
