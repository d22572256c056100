"""A KV cache over an opened model: the `TokenModel` that real decoding runs on."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from homespec.contracts import Rows
from homespec.errors import (
    CacheFileError,
    CacheRollbackError,
    DecodeAbortedError,
    DecodeError,
    ForeignCacheError,
)
from homespec.runtime import binding, kv_binding
from homespec.runtime.kv_file import check_sealed, write_sealed
from homespec.runtime.model import LlamaModel

BATCH_TOKENS = 512
PROBE_TOKENS = 3


class LlamaContext:
    """Implements `contracts.TokenModel` for one sequence."""

    def __init__(
        self,
        model: LlamaModel,
        *,
        context_tokens: int,
        max_rows: int,
        num_threads: int,
        num_batch_threads: int | None = None,
        kv_type: str = "f16",
        abort: binding.AbortFlag | None = None,
    ) -> None:
        """Allocates the KV cache and the compute buffers.

        Args:
            model: must outlive the context.
            context_tokens: the most tokens that the KV cache holds.
            max_rows: the most rows of logits that one decode gives: draft length + 1. llama.cpp reserves
                a row (0.6 MB at a vocabulary of 152k) for each in its compute and output buffers.
            num_threads: for decodes of one token.
            num_batch_threads: for decodes of several; `num_threads` when None.
            kv_type: f16, q8_0 or q4_0.
            abort: stops running decodes when set.

        Raises:
            MemoryBudgetError: it could not be allocated.
        """
        self._vocab_size = model.vocabulary.size
        self._window = model.sliding_window_tokens
        self._abort = abort or binding.AbortFlag()
        self._context_tokens = context_tokens
        self._max_rows = max_rows
        self.kv_type = kv_type
        self._cached: list[int] = []
        self._handle = binding.new_context(
            model.handle,
            context_tokens=context_tokens,
            batch_tokens=BATCH_TOKENS,
            max_rows=max_rows,
            num_threads=num_threads,
            num_batch_threads=num_batch_threads or num_threads,
            kv_type=kv_type,
            abort=self._abort,
        )
        self._batch = binding.Batch(BATCH_TOKENS)
        self._logits = binding.LogitsViews(self._handle, self._vocab_size)

    @property
    def vocab_size(self) -> int:
        """See `TokenModel`."""
        return self._vocab_size

    @property
    def context_tokens(self) -> int:
        """See `TokenModel`."""
        return self._context_tokens

    @property
    def cached_tokens(self) -> Sequence[int]:
        """See `TokenModel`."""
        return self._cached

    @property
    def num_cached_tokens(self) -> int:
        """See `TokenModel`."""
        return len(self._cached)

    def decode(self, tokens: Sequence[int], rows: Rows = "all") -> npt.NDArray[np.float32]:
        """See `TokenModel.decode`; the result is a view into llama.cpp's memory."""
        num_tokens, start = len(tokens), len(self._cached)
        num_rows = {"none": 0, "last": 1, "all": num_tokens}[rows]
        if start + num_tokens > self._context_tokens or num_rows > self._max_rows:
            raise DecodeError(
                f"A decode of {num_tokens:,} tokens ({num_rows} rows) was asked for with {start:,} of "
                f"{self._context_tokens:,} context tokens in use and {self._max_rows} rows at most."
            )
        array = np.asarray(tokens, dtype=np.int32)
        try:
            for offset in range(0, num_tokens, BATCH_TOKENS):
                chunk = array[offset : offset + BATCH_TOKENS]
                is_last = offset + len(chunk) == num_tokens
                self._batch.fill(chunk, start + offset, num_rows if is_last else 0)
                self._batch.decode(self._handle)
        except (DecodeAbortedError, DecodeError):
            self.truncate(start)
            raise
        self._cached.extend(tokens)
        if num_rows == 0:
            return np.empty((0, self._vocab_size), dtype=np.float32)
        return self._logits.rows(num_rows)

    def truncate(self, num_tokens: int) -> None:
        """See `TokenModel.truncate`. Checked: the positions that are left must be exactly those wanted."""
        kept = binding.remove_from(self._handle, num_tokens) and self._holds(num_tokens)
        del self._cached[num_tokens if kept else 0 :]
        if not kept:
            binding.clear_memory(self._handle)
            raise CacheRollbackError(
                f"The KV cache cannot be truncated to {num_tokens:,} tokens: the model keeps a running state "
                "or a sliding window."
            )

    def _holds(self, num_tokens: int) -> bool:
        """Whether everything that the next token may attend to is still in the cache."""
        if binding.last_position(self._handle) != num_tokens - 1:
            return False
        # A sliding-window cache may have overwritten old positions; only those the window has left may miss.
        needed_from = max(0, num_tokens - self._window) if self._window else 0
        return num_tokens == 0 or binding.first_position(self._handle) <= needed_from

    @property
    def num_state_bytes(self) -> int:
        """What the KV cache takes on disk, but for a few hundred bytes."""
        return kv_binding.sequence_bytes(self._handle)

    def save(self, path: Path, owner: Mapping[str, str]) -> int:
        """Writes the KV cache, with its tokens, to a file that `load` reads; atomically.

        Args:
            path: of the file.
            owner: what it belongs to; `load` insists on the same.

        Returns:
            Bytes of the file.

        Raises:
            CacheFileError: it could not be written.
        """
        write = functools.partial(kv_binding.save_sequence, self._handle, tokens=self._cached)
        return write_sealed(path, owner, len(self._cached), write)

    def load(self, path: Path, owner: Mapping[str, str]) -> int:
        """Replaces the KV cache by the one in a file, bit by bit as it was saved.

        The context may have another size than that one had, as long as the tokens find room. The cells of a
        sliding window are packed, so that several threads share its work in another way, and later logits
        are rounded as differently as between decodes of different widths. Other caches give the very logits.

        Returns:
            How many tokens the KV cache holds now.

        Raises:
            FileNotFoundError: there is no file.
            ForeignCacheError: it belongs to something else, or is too long.
            CacheFileError: it is damaged. The KV cache is as before, but empty where llama.cpp found out.
        """
        num_tokens = check_sealed(path, owner)
        if num_tokens > self._context_tokens:
            raise ForeignCacheError(
                f"The KV cache {path.name} holds {num_tokens:,} tokens and the context only "
                f"{self._context_tokens:,}; it was not used."
            )
        self.truncate(0)
        tokens = kv_binding.load_sequence(self._handle, path, num_tokens)
        if (
            tokens is None
            or len(tokens) != num_tokens
            or binding.last_position(self._handle) != num_tokens - 1
        ):
            binding.clear_memory(self._handle)
            raise CacheFileError(f"llama.cpp cannot read the KV cache {path.name}; it was not used.")
        self._cached.extend(tokens)
        return num_tokens

    def set_threads(self, num_threads: int, num_batch_threads: int) -> None:
        """Changes how many threads later decodes of one token, and of several, run on."""
        binding.set_threads(self._handle, num_threads, num_batch_threads)

    def can_truncate(self) -> bool:
        """Decodes a few tokens and takes the last back: whether speculation is possible on this model.

        Leaves the cache empty. Recurrent and hybrid models answer False (llama_memory_seq_rm refuses).
        """
        self.truncate(0)
        try:
            self.decode([0] * PROBE_TOKENS, rows="last")
            self.truncate(1)
        except CacheRollbackError:
            return False
        self.truncate(0)
        return True

    def close(self) -> None:
        """Frees the context; safe to call twice."""
        if self._handle is not None:
            self._batch.free()
            binding.free_context(self._handle)
            self._handle = None
