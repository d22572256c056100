"""What measurements depend on in any case: the model's bytes, the build of llama.cpp, and the processor."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import platform
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from homespec.runtime.cgroups import read_text
from homespec.runtime.threads import choose_threads

_HEADER_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 16
_NUM_BLOCKS = 16
_MOST_COMMENT_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A model on a machine.

    Attributes:
        model: identity of the model file, see `model_identity`.
        build: of llama.cpp, see `build_fingerprint`.
        cpu: name of the processor.
        cpu_limits: the cores that this process may use, and its control group's quota where that is less.
    """

    model: str
    build: str
    cpu: str
    cpu_limits: str


def fingerprint(path: Path) -> Fingerprint:
    """Of a model file, here and now.

    Raises:
        OSError: the file cannot be read.
    """
    return Fingerprint(model_identity(path), build_fingerprint(), cpu_name(), cpu_limits())


def model_identity(path: Path) -> str:
    """Tells model files apart in milliseconds: size and SHA-256 of the beginning and of sampled blocks.

    Two quantizations of one model differ in their tensors everywhere, and two models in their metadata. It is
    no check of integrity (`homespec models check` is).
    """
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(_HEADER_BYTES))
        for number in range(1, _NUM_BLOCKS + 1):
            file.seek(max(0, size * number // _NUM_BLOCKS - _BLOCK_BYTES))
            digest.update(file.read(_BLOCK_BYTES))
    return digest.hexdigest()[:32]


@functools.cache
def build_fingerprint() -> str:
    """Version, compiler and instruction sets of the llama.cpp that is installed, for people and for keys."""
    from homespec.runtime.binding import system_info

    used = [
        part.partition("=")[0].split(":")[-1].strip() for part in system_info().split("|") if "= 1" in part
    ]
    return f"{build_name()}, {' '.join(used)}"


@functools.cache
def build_name() -> str:
    """The beginning of the fingerprint, which does not need llama.cpp to be loaded."""
    version = importlib.metadata.version("llama-cpp-python")
    return f"llama-cpp-python {version}, {build_compiler() or 'unknown compiler'}"


@functools.cache
def build_compiler() -> str:
    """The compilers that wrote ggml's kernels, such as `GCC: (Debian 12.2.0-14) 12.2.0`; empty if unknown."""
    spec = importlib.util.find_spec("llama_cpp")  # finds, and does not import
    for directory in (spec.submodule_search_locations if spec else None) or ():
        for path in sorted(Path(directory, "lib").glob("libggml-cpu*.so*")):
            return ", ".join(elf_comments(path))
    return ""


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


def cpu_limits() -> str:
    """The cores that this process may use, and its control group's quota where that is less."""
    return choose_threads().reason.removesuffix(".")


def cpu_name(root: Path = Path("/")) -> str:
    """What the processor or the board calls itself.

    Args:
        root: of the file tree that holds /proc.
    """
    board = read_text(root / "proc/device-tree/model")  # a Raspberry Pi's cpuinfo names no model
    for line in (read_text(root / "proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return (board or "").strip("\0") or platform.machine()
