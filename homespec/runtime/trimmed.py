"""Between a trimmed draft model's tokens and the target's; see `trim_layout`.

Rows of logits are spread over the target's ids, with -inf for what the draft model cannot write, so that
every processor and verifier sees one vocabulary and rejection sampling stays exact. Spreading 33,000 logits
over 152,000 took 0.08 ms, beside some 15 ms for the token itself.
"""

from __future__ import annotations

import functools

import gguf
import numpy as np
import numpy.typing as npt

from homespec.runtime.trim_layout import TrimLayout

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]


class TrimmedVocabulary:
    """Maps ids both ways, and fetches the embeddings of tokens that the draft model cannot name."""

    def __init__(self, layout: TrimLayout) -> None:
        """Maps the file's embedding rows when they are first asked for."""
        self._layout = layout
        self.size = layout.num_source_tokens
        self.embedding_length = layout.embedding_length
        self._source_ids = np.array(layout.token_ids, dtype=np.int64)
        self._own_ids = np.full(self.size, -1, dtype=np.int32)
        self._own_ids[self._source_ids] = np.arange(self._source_ids.size, dtype=np.int32)
        self._spread = np.full((1, self.size), -np.inf, dtype=np.float32)

    def own_ids(self, tokens: Ids) -> Ids | None:
        """The draft model's ids of tokens; None where it lacks one of them."""
        own = self._own_ids[tokens]
        return None if (own < 0).any() else own

    def embeddings(self, tokens: Ids) -> Floats:
        """What enters the model in the tokens' place: shape (len(tokens), embedding_length)."""
        rows: Floats = gguf.dequantize(self._rows[tokens], gguf.GGMLQuantizationType[self._layout.rows_type])
        return rows * np.float32(self._layout.input_scale)

    def spread(self, rows: Floats) -> Floats:
        """Rows of the draft model's logits on the target's ids; the next call overwrites them.

        Args:
            rows: shape (n, number of the draft model's tokens).

        Returns:
            Shape (n, size), -inf for the others.
        """
        if len(rows) > len(self._spread):
            self._spread = np.full((len(rows), self.size), -np.inf, dtype=np.float32)
        spread = self._spread[: len(rows)]
        spread[:, self._source_ids] = rows
        return spread

    @functools.cached_property
    def _rows(self) -> npt.NDArray[np.uint8]:
        layout = self._layout
        shape = (layout.num_source_tokens, layout.row_bytes)
        rows = np.memmap(layout.path, np.uint8, "r", offset=layout.rows_offset, shape=shape)
        return rows.view(np.ndarray)
