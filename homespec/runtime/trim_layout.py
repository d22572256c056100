"""What a reduced draft model says about itself: the keys that `reduce` writes and other rooms read.

A trimmed model is an ordinary GGUF file with a vocabulary of its own, a subset of its source's. llama.cpp
takes it as it is. Behind its last tensor, where llama.cpp looks at nothing, stand the embedding rows of all
of the source's tokens, so that as a draft model it reads every token of the target and only writes fewer.

    homespec.trim.token_ids             int32 array: for each token its id in the source, ascending
    homespec.trim.num_source_tokens     size of the source's vocabulary: the number of rows behind the tensors
    homespec.trim.source_tokens_sha256  of the source's `tokenizer.ggml.tokens` array as it stands in the file
    homespec.trim.rows_type             number format of those rows, by ggml's name
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SOURCE_NAME = "homespec.source.name"
"""Which file a reduced one was made from."""
SOURCE_SHA256 = "homespec.source.sha256"
"""Of that file."""
MADE_BY_VERSION = "homespec.version"
"""Of the homespec that made the last step."""
TRIM_TOKEN_IDS = "homespec.trim.token_ids"
TRIM_NUM_SOURCE_TOKENS = "homespec.trim.num_source_tokens"
TRIM_SOURCE_TOKENS_SHA256 = "homespec.trim.source_tokens_sha256"
TRIM_ROWS_TYPE = "homespec.trim.rows_type"


@dataclass(frozen=True, slots=True)
class TrimLayout:
    """How a trimmed file is read; `catalog.trimmed.read_trim` makes it from a header.

    Attributes:
        path: the file.
        token_ids: for each of the file's tokens its id in the source, ascending.
        num_source_tokens: size of the source's vocabulary.
        source_tokens_sha256: of the source's array of tokens.
        rows_type: number format of the embedding rows, by ggml's name.
        rows_offset: of the first row, from the start of the file.
        row_bytes: of each.
        embedding_length: elements of a row.
        input_scale: what embeddings are multiplied with before they enter llama.cpp in a token's place.
    """

    path: Path
    token_ids: tuple[int, ...]
    num_source_tokens: int
    source_tokens_sha256: str
    rows_type: str
    rows_offset: int
    row_bytes: int
    embedding_length: int
    input_scale: float

    @property
    def rows_bytes(self) -> int:
        """Of all rows together."""
        return self.num_source_tokens * self.row_bytes
