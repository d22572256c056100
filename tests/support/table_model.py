"""A language model that is a table: the next token depends on the last two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from homespec.contracts import Rows
from homespec.errors import CacheRollbackError, DecodeError

Logits = npt.NDArray[np.float64]


class TableModel:
    """A `TokenModel` over a Markov table, with float64 logits and counters of what was asked of it.

    Attributes:
        num_decodes: calls of `decode`.
        num_decoded_tokens: tokens in all of them.
        num_truncates: calls of `truncate`.
        cached_tokens: what is in the KV cache.
        table: see `__init__`.
    """

    def __init__(self, table: Logits, context_tokens: int = 1 << 30) -> None:
        """Wraps logits of shape (vocab + 1, vocab + 1, vocab); index `vocab` stands for "no such token"."""
        assert table.shape == (table.shape[2] + 1, table.shape[2] + 1, table.shape[2])
        self.table = table
        self._context_tokens = context_tokens
        self.cached_tokens: list[int] = []
        self.num_decodes = 0
        self.num_decoded_tokens = 0
        self.num_truncates = 0

    @classmethod
    def random(
        cls, seed: int, vocab_size: int, spread: float = 2.0, context_tokens: int = 1 << 30
    ) -> TableModel:
        """Normal logits with standard deviation `spread`: the higher, the more certain the model."""
        shape = (vocab_size + 1, vocab_size + 1, vocab_size)
        return cls(np.random.default_rng(seed).normal(0.0, spread, shape), context_tokens)

    def near_copy(self, seed: int, spread: float = 1.0) -> TableModel:
        """A model like this one with normal noise on its logits: a good draft model."""
        noise = np.random.default_rng(seed).normal(0.0, spread, self.table.shape)
        return TableModel(self.table + noise, self._context_tokens)

    @property
    def vocab_size(self) -> int:
        return int(self.table.shape[2])

    @property
    def context_tokens(self) -> int:
        return self._context_tokens

    @property
    def num_cached_tokens(self) -> int:
        return len(self.cached_tokens)

    def next_logits(self, tokens: Sequence[int]) -> Logits:
        """The row for the token after `tokens`: what `decode` would give, without a cache."""
        before, last = [self.vocab_size, self.vocab_size, *tokens][-2:]
        row: Logits = self.table[before, last]
        return row

    def decode(self, tokens: Sequence[int], rows: Rows = "all") -> Logits:
        assert tokens
        assert all(0 <= token < self.vocab_size for token in tokens)
        if self.num_cached_tokens + len(tokens) > self._context_tokens:
            raise DecodeError(
                f"{self.num_cached_tokens + len(tokens)} tokens; the context holds {self._context_tokens}."
            )
        self.num_decodes += 1
        self.num_decoded_tokens += len(tokens)
        first = len(self.cached_tokens)
        self.cached_tokens.extend(tokens)
        num_rows = {"none": 0, "last": 1, "all": len(tokens)}[rows]
        ends = range(first + len(tokens) - num_rows + 1, first + len(tokens) + 1)
        logits = np.empty((num_rows, self.vocab_size))
        for row, end in zip(logits, ends, strict=True):
            row[:] = self.next_logits(self.cached_tokens[max(0, end - 2) : end])
        logits.flags.writeable = False  # As views into llama.cpp's memory, rows are not to be modified.
        return logits

    def truncate(self, num_tokens: int) -> None:
        if not 0 <= num_tokens <= self.num_cached_tokens:
            raise CacheRollbackError(f"Cannot keep {num_tokens} of {self.num_cached_tokens} cached tokens.")
        self.num_truncates += 1
        del self.cached_tokens[num_tokens:]
