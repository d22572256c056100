"""Whether a file is a trimmed draft model, from its header; see `runtime.trim_layout`."""

from __future__ import annotations

import math
from itertools import pairwise

from homespec.catalog.gguf_format import GGML_TYPES
from homespec.catalog.gguf_header import GgufHeader
from homespec.errors import ModelFormatError
from homespec.runtime.trim_layout import (
    TRIM_NUM_SOURCE_TOKENS,
    TRIM_ROWS_TYPE,
    TRIM_SOURCE_TOKENS_SHA256,
    TRIM_TOKEN_IDS,
    TrimLayout,
)

_BLOCKS = {name: (elements, num_bytes) for name, elements, num_bytes in GGML_TYPES.values()}


def read_trim(header: GgufHeader) -> TrimLayout | None:
    """How a trimmed file is read; None for every other file.

    Raises:
        ModelFormatError: it says that it is one, and does not hold what is needed.
    """
    ids = header.array(TRIM_TOKEN_IDS)
    if ids is None:
        return None
    tokens = header.array("tokenizer.ggml.tokens")
    token_ids = ids.integers()
    num_source = header.integer(TRIM_NUM_SOURCE_TOKENS) or 0
    rows_type = header.text(TRIM_ROWS_TYPE) or ""
    length = header.integer(f"{header.architecture}.embedding_length") or 0
    block_elements, block_bytes = _BLOCKS.get(rows_type, (0, 0))
    ascending = all(first < second for first, second in pairwise(token_ids))
    if (
        not token_ids
        or not ascending
        or tokens is None
        or len(token_ids) != tokens.num_elements
        or not 0 <= token_ids[0] <= token_ids[-1] < num_source
        or not length
        or not block_elements
        or length % block_elements
    ):
        raise ModelFormatError(
            f"{header.path.name} claims to be a trimmed draft model, but its claims do not fit together.",
            hint="Make it anew with `homespec draft reduce`.",
        )
    row_bytes = length // block_elements * block_bytes
    rows_offset = header.file_bytes - num_source * row_bytes
    if rows_offset < header.tensors_end:
        raise ModelFormatError(
            f"{header.path.name} is a trimmed draft model that has lost its embedding rows: "
            f"{num_source * row_bytes:,} bytes are missing behind its tensors.",
            hint="Make it anew; other tools that rewrite GGUF files leave these rows out.",
        )
    return TrimLayout(
        path=header.path,
        token_ids=token_ids,
        num_source_tokens=num_source,
        source_tokens_sha256=header.text(TRIM_SOURCE_TOKENS_SHA256) or "",
        rows_type=rows_type,
        rows_offset=rows_offset,
        row_bytes=row_bytes,
        embedding_length=length,
        # llama.cpp's graph of gemma3 (src/models/gemma3.cpp) scales the rows of tokens, not given embeddings;
        # those of llama, qwen2 and qwen3 scale neither.
        input_scale=math.sqrt(length) if header.architecture == "gemma3" else 1.0,
    )
