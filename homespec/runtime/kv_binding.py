"""llama.cpp's files of one sequence's state: the part of `binding` that is about them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

import llama_cpp

from homespec.runtime.binding import Handle


def sequence_bytes(context: Handle) -> int:
    """llama_state_seq_get_size: bytes of the sequence's state, about those of its file."""
    return int(llama_cpp.llama_state_seq_get_size(context, 0))


def save_sequence(context: Handle, path: Path, tokens: Sequence[int]) -> int:
    """llama_state_seq_save_file: writes tokens and state; the bytes of the file, 0 when it failed.

    It goes to the disk in pieces, so that there is no second copy of the state in memory.
    """
    array = (llama_cpp.llama_token * len(tokens))(*tokens)
    return int(llama_cpp.llama_state_seq_save_file(context, os.fsencode(path), 0, array, len(tokens)))


def load_sequence(context: Handle, path: Path, num_tokens: int) -> list[int] | None:
    """llama_state_seq_load_file: the tokens whose state was read; None when llama.cpp refuses it.

    It checks layers, types and row sizes, but trusts the counts in the file: one that is not as
    `save_sequence` wrote it can end the process.
    """
    tokens, count = (llama_cpp.llama_token * num_tokens)(), ctypes.c_size_t(0)
    num_bytes = llama_cpp.llama_state_seq_load_file(
        context, os.fsencode(path), 0, tokens, num_tokens, ctypes.byref(count)
    )
    return list(tokens[: count.value]) if num_bytes else None
