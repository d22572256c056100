"""Tells whether a model file is whole, and if not, in one sentence what it is instead."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from homespec.catalog.entries import ModelEntry
from homespec.catalog.gguf_header import GgufHeader, read_header
from homespec.errors import ChecksumError, ModelFormatError, ModelNotFoundError
from homespec.units import format_bytes

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""

_BLOCK_BYTES = 1 << 20
_HEAD_BYTES = 512


def check_file(
    path: Path,
    entry: ModelEntry | None = None,
    *,
    progress: Progress | None = None,
    shown_as: str | None = None,
) -> GgufHeader:
    """Checks a model file: its kind, its size, its header, and with an entry its sha256.

    Args:
        path: the file.
        entry: what the catalogue promises about it; without it the content is not hashed.
        progress: called while the file is hashed.
        shown_as: what messages call the file; its path by default.

    Returns:
        The file's header.

    Raises:
        ModelNotFoundError: there is no such file.
        ModelFormatError: it is not a GGUF model, or not all of one.
        ChecksumError: it is not the file that the catalogue promises.
    """
    shown = shown_as or str(path)
    _check_kind(path, shown)
    size_bytes = path.stat().st_size
    again = f"homespec models pull {entry.name}" if entry else ""
    if entry is not None and size_bytes != entry.size_bytes:
        verdict = "it was cut short" if size_bytes < entry.size_bytes else "it is another file"
        raise ChecksumError(
            f"{shown} has {size_bytes:,} bytes ({format_bytes(size_bytes)}), the catalogue promises "
            f"{entry.size_bytes:,} ({format_bytes(entry.size_bytes)}): {verdict}.",
            hint=again,
        )
    header = read_header(path)
    if entry is not None:
        found = hash_file(path, progress)
        if found != entry.sha256:
            raise ChecksumError(
                f"{shown} has the right size but other content: its sha256 is {found}, the catalogue "
                f"promises {entry.sha256}.",
                hint=again,
            )
    return header


def hash_file(path: Path, progress: Progress | None = None) -> str:
    """The file's sha256 in hexadecimal."""
    digest = hashlib.sha256()
    total_bytes = path.stat().st_size
    done_bytes = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
            done_bytes += len(block)
            if progress is not None:
                progress(done_bytes, total_bytes)
    return digest.hexdigest()


def _check_kind(path: Path, shown: str) -> None:
    """Recognizes what people end up with instead of a model; what passes is still to be read as GGUF."""
    if path.is_dir():
        raise ModelFormatError(
            f"{shown} is a directory, not a model file.", hint="Name the .gguf file in it."
        )
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except FileNotFoundError as error:
        raise ModelNotFoundError(f"There is no file {shown}.", hint="Check the path.") from error
    except OSError as error:
        raise ModelFormatError(
            f"{shown} cannot be read: {error.strerror}.", hint="Check the file's permissions."
        ) from error
    size_bytes = path.stat().st_size
    if not head:
        raise ModelFormatError(f"{shown} is empty.", hint="Download the file again.")
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype", b"<html", b"<head", b"<?xml")):
        raise ModelFormatError(
            f"{shown} is a web page of {size_bytes:,} bytes, not a model: a server's answer was saved.",
            hint="Use the file's download link, and log in first if the model asks for it.",
        )
    if head.startswith(b"version https://git-lfs"):
        raise ModelFormatError(
            f"{shown} is a Git LFS pointer of {size_bytes:,} bytes; the model itself was not fetched.",
            hint="Run `git lfs pull` in the repository, or download the file itself.",
        )
    if head[:4] in (b"lmgg", b"fmgg", b"tjgg", b"algg"):
        raise ModelFormatError(
            f"{shown} is in the GGML format of 2023, which llama.cpp no longer reads.",
            hint="Get the model in GGUF format.",
        )
    if head[:4] != b"GGUF":
        raise ModelFormatError(
            f"{shown} is not a GGUF model: it begins with {head[:4]!r} instead of b'GGUF'.",
            hint="Name a model file in GGUF format.",
        )
