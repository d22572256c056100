"""Measures a model of some layers of a file: written, opened, asked, and deleted again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from homespec.reduce.agreement import MAX_ROWS, Sample, agreement
from homespec.reduce.gguf_file import read_gguf, write_gguf_plainly
from homespec.reduce.layers import num_layers, with_layers
from homespec.runtime.binding import AbortFlag
from homespec.runtime.context import LlamaContext
from homespec.runtime.model import LlamaModel


class LayerTrial:
    """The `layer_search.Evaluate` of a real model; a measurement takes as long as loading and a prefill."""

    def __init__(
        self,
        source: Path,
        samples: Sequence[Sample],
        scratch: Path,
        *,
        num_threads: int,
        abort: AbortFlag | None = None,
    ) -> None:
        """Reads the source.

        Args:
            source: the model whose layers are dropped.
            samples: what the target says; in the source's tokens.
            scratch: a path for the shallower models, one at a time; there must be room for the source again.
            num_threads: for decodes.
            abort: stops a running decode.

        Raises:
            ModelFormatError: the source cannot be reduced.
        """
        self._model = read_gguf(source)
        self._samples = tuple(samples)
        self._scratch = scratch
        self._num_threads = num_threads
        self._abort = abort
        self.num_layers = num_layers(self._model)

    @property
    def identity(self) -> str:
        """Of the source's content and the samples, for the state of a search."""
        with self._model.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
        digest.update(repr(self._samples).encode())
        return digest.hexdigest()

    def __call__(self, kept: tuple[int, ...]) -> float:
        """The agreement of a model of these layers with the samples.

        Raises:
            OSError: there is no room for it.
            DecodeAbortedError: stopped on request.
        """
        try:
            write_gguf_plainly(self._scratch, with_layers(self._model, kept))
            with LlamaModel(self._scratch) as model:
                context = LlamaContext(
                    model,
                    context_tokens=max(len(sample.prompt) + len(sample.reply) for sample in self._samples),
                    max_rows=MAX_ROWS,
                    num_threads=self._num_threads,
                    abort=self._abort,
                )
                try:
                    return agreement(context, self._samples)
                finally:
                    context.close()
        finally:
            self._scratch.unlink(missing_ok=True)
