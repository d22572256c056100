"""Writes a model in another number format, by llama.cpp's quantizer in a process of its own.

The quantizer cannot be stopped, and ends the process on some malformed files. In a child it can be killed at
any
moment: what is half written lies under another name and goes. Importing this loads nothing of llama.cpp.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

from homespec.errors import ConfigError, DiskSpaceError, ModelFormatError
from homespec.runtime.atomic import written_whole
from homespec.units import format_bytes

Progress = Callable[[float], None]
"""Told the share of the work that is done, 0 to 1."""

# Name -> enum llama_ftype (llama.h), and the ggml type of most of its tensors. Formats that need an
# importance matrix are left out.
FILE_TYPES: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "F32": (0, "F32"),
        "F16": (1, "F16"),
        "BF16": (32, "BF16"),
        "Q8_0": (7, "Q8_0"),
        "Q6_K": (18, "Q6_K"),
        "Q5_K_M": (17, "Q5_K"),
        "Q5_K_S": (16, "Q5_K"),
        "Q5_1": (9, "Q5_1"),
        "Q5_0": (8, "Q5_0"),
        "Q4_K_M": (15, "Q4_K"),
        "Q4_K_S": (14, "Q4_K"),
        "Q4_1": (3, "Q4_1"),
        "Q4_0": (2, "Q4_0"),
        "IQ4_NL": (25, "IQ4_NL"),
        "IQ4_XS": (30, "IQ4_XS"),
        "Q3_K_M": (12, "Q3_K"),
        "Q2_K": (10, "Q2_K"),
    }
)
MAX_NOTE_BYTES = 127
"""Of a key or a text of the notes: `char val_str[128]` of llama_model_kv_override."""
_SPARE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Form:
    """How a model is to be written.

    Attributes:
        file_type: a key of FILE_TYPES.
        pure: all matrices in its main type, embeddings and output included; otherwise llama.cpp's mixture,
            which keeps some in a better one.
        num_threads: that do it.
    """

    file_type: str
    pure: bool = False
    num_threads: int = 1


def check_file_type(name: str) -> str:
    """The name as FILE_TYPES has it, whatever its case.

    Raises:
        ConfigError: there is no such type.
    """
    if name.upper() in FILE_TYPES:
        return name.upper()
    raise ConfigError(f"There is no quantization {name!r}.", hint=f"Take one of {', '.join(FILE_TYPES)}.")


def quantize(
    source: Path,
    destination: Path,
    form: Form,
    *,
    needed_bytes: int = 0,
    notes: Mapping[str, str] = MappingProxyType({}),
    progress: Progress = lambda share: None,
) -> None:
    """Writes `destination`, whole and on the disk, or leaves what was there.

    The same source and form give the same bytes, however many threads there are.

    Args:
        source: a GGUF file whose header was checked; it may be quantized already, and is then no better for
            it.
        destination: another file.
        form: how.
        needed_bytes: what it will take, as far as known.
        notes: metadata keys to set, and their texts of at most 127 bytes.
        progress: told how far it is.

    Raises:
        DiskSpaceError: the disk has no room.
        HomespecError: the file cannot be written.
        ModelFormatError: llama.cpp refuses the source.
    """
    assert all(len(text.encode()) <= MAX_NOTE_BYTES for text in (*notes, *notes.values()))
    with written_whole(destination) as temporary:
        check_room(destination, needed_bytes)
        order = {"source": str(source), "destination": str(temporary), **asdict(form), "notes": dict(notes)}
        complaint = _run_child(order, progress)
        if complaint is not None:
            check_room(destination, needed_bytes or source.stat().st_size)
            raise ModelFormatError(
                f"llama.cpp cannot write {source.name} as {form.file_type}: {complaint}.",
                hint="Check the file with `homespec models check`, or take another type.",
            )


def check_room(destination: Path, needed_bytes: int) -> None:
    """Refuses to begin what cannot end.

    Raises:
        DiskSpaceError: the disk of a file that is to be written has less room than that.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(destination.parent).free
    if needed_bytes and needed_bytes + _SPARE_BYTES > free_bytes:
        raise DiskSpaceError(
            f"{destination.name} needs {format_bytes(needed_bytes)} of disk; {destination.parent} has "
            f"{format_bytes(free_bytes)}.",
            hint=f"Free {format_bytes(needed_bytes + _SPARE_BYTES - free_bytes)}, or pass --output on "
            "another disk.",
        )


def _run_child(order: Mapping[str, object], progress: Progress) -> str | None:
    """Runs the quantizer; what it complained of, or None where all went well."""
    # A session of its own: Ctrl-C is for this process, which ends the child and tidies up.
    child = subprocess.Popen(
        [sys.executable, "-m", "homespec.runtime.quantizer", json.dumps(order)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    complaint = "the quantizer ended without a word"
    assert child.stdout is not None
    try:
        for line in child.stdout:
            message = json.loads(line)
            complaint = message.get("complaint", complaint)
            if "share" in message:
                progress(message["share"])
        return complaint if child.wait() else None
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
