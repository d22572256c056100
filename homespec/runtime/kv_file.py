"""KV caches on disk, sealed: what llama.cpp writes, followed by what it belongs to and a checksum.

llama.cpp trusts its state files. So a file is handed to it only when every byte is the one that was written,
and model, build and kind of cache are those that it was written with. The layout is

    state file of llama.cpp | seal, JSON | length of the seal, 4 bytes little-endian | magic
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from homespec.errors import CacheFileError, ForeignCacheError
from homespec.runtime.atomic import replaced

_MAGIC = b"HSPECKV1"
_LENGTH_BYTES = 4
_MOST_SEAL_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 20


def write_sealed(path: Path, owner: Mapping[str, str], num_tokens: int, write: Callable[[Path], int]) -> int:
    """Writes a file atomically: whoever opens it sees the whole of it or what was there before.

    Args:
        path: missing directories are made.
        owner: what the state belongs to, by name.
        num_tokens: in the state.
        write: writes the state to a path and tells how many bytes it wrote; 0 when it could not.

    Returns:
        Bytes of the file.

    Raises:
        CacheFileError: it could not be written; nothing is left of it.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replaced(path, mode=0o600) as part:
            num_state_bytes = write(part)
            with part.open("r+b") as file:
                if not num_state_bytes or os.fstat(file.fileno()).st_size != num_state_bytes:
                    raise CacheFileError(
                        f"The KV cache of {num_tokens:,} tokens could not be written to {path.parent}.",
                        hint="See whether the disk is full.",
                    )
                seal = {"owner": dict(owner), "num_tokens": num_tokens, "num_state_bytes": num_state_bytes}
                encoded = json.dumps({**seal, "sha256": _digest(file, seal)}).encode()
                file.seek(num_state_bytes)
                file.write(encoded + len(encoded).to_bytes(_LENGTH_BYTES, "little") + _MAGIC)
                num_bytes = file.tell()
    except OSError as error:
        raise CacheFileError(
            f"The KV cache could not be written to {path.parent}: {error.strerror}.", hint="Make room there."
        ) from error
    return num_bytes


def check_sealed(path: Path, owner: Mapping[str, str]) -> int:
    """Reads a whole file and checks it.

    Returns:
        How many tokens its state holds.

    Raises:
        FileNotFoundError: there is no file.
        ForeignCacheError: it is whole, but belongs to something else.
        CacheFileError: it is damaged, no such file at all, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            seal = _read_seal(file)
            digest = seal.pop("sha256")
            if _digest(file, seal) != digest:
                raise ValueError("checksum")
            found, num_tokens = dict(seal["owner"]), int(seal["num_tokens"])
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CacheFileError(f"The KV cache {path.name} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CacheFileError(f"The KV cache {path.name} is damaged; it was not used.") from None
    different = sorted(name for name in {*found, *owner} if found.get(name) != owner.get(name))
    if different:
        others = " and another ".join(different)
        raise ForeignCacheError(f"The KV cache {path.name} was made with another {others}; it was not used.")
    return num_tokens


def _read_seal(file: BinaryIO) -> dict[str, Any]:
    """The seal, after a look at its length and at the length of the state.

    Raises:
        ValueError: there is none, or the file has another length than it had.
    """
    tail = _LENGTH_BYTES + len(_MAGIC)
    size = os.fstat(file.fileno()).st_size
    file.seek(max(0, size - tail))
    ending = file.read()
    length = int.from_bytes(ending[:_LENGTH_BYTES], "little")
    if ending[_LENGTH_BYTES:] != _MAGIC or not 0 < length <= min(size - tail, _MOST_SEAL_BYTES):
        raise ValueError("no seal")
    file.seek(size - tail - length)
    seal: dict[str, Any] = json.loads(file.read(length))
    if seal["num_state_bytes"] != size - tail - length:
        raise ValueError("length")
    return seal


def _digest(file: BinaryIO, seal: Mapping[str, object]) -> str:
    """SHA-256 of the state and of everything else in the seal."""
    digest = hashlib.sha256(json.dumps(seal, sort_keys=True).encode())
    file.seek(0)
    left = seal["num_state_bytes"]
    assert isinstance(left, int)
    while left and (block := file.read(min(left, _BLOCK_BYTES))):
        digest.update(block)
        left -= len(block)
    return digest.hexdigest()
