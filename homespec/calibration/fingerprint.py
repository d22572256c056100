"""What measurements depend on in any case: the model's bytes, the build of llama.cpp, and the processor."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import platform
from dataclasses import dataclass
from pathlib import Path

from homespec.runtime.cgroups import read_text
from homespec.runtime.compiler import build_compiler
from homespec.runtime.threads import choose_threads

_HEADER_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 16
_NUM_BLOCKS = 16


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
