"""Models opened without an engine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from homespec.catalog.gguf_header import read_header
from homespec.catalog.trimmed import read_trim
from homespec.runtime.context import LlamaContext
from homespec.runtime.model import LlamaModel
from homespec.runtime.trimmed import TrimmedVocabulary


@contextlib.contextmanager
def opened(path: Path, *, as_drafter: bool = False, max_rows: int = 16) -> Iterator[LlamaContext]:
    """A context of 256 tokens; a trimmed file speaks its source's tokens if it is opened as a drafter."""
    layout = read_trim(read_header(path)) if as_drafter else None
    with LlamaModel(path) as model:
        context = LlamaContext(
            model,
            context_tokens=256,
            max_rows=max_rows,
            num_threads=1,
            trimmed=TrimmedVocabulary(layout) if layout else None,
        )
        try:
            yield context
        finally:
            context.close()


def logits_after(path: Path, tokens: Sequence[int], *, as_drafter: bool = False) -> npt.NDArray[np.float32]:
    """All rows of logits of one decode, a copy."""
    with opened(path, as_drafter=as_drafter) as context:
        return context.decode(tokens, rows="all").copy()
