"""A GGUF file opened by llama.cpp."""

from __future__ import annotations

import functools
from pathlib import Path
from types import TracebackType

from homespec.errors import ConfigError, ModelFormatError
from homespec.runtime import binding
from homespec.runtime.chat import ChatTemplate
from homespec.runtime.vocabulary import Vocabulary


class LlamaModel:
    """Weights and vocabulary. Close it after all of its contexts."""

    def __init__(self, path: Path, *, mmap: bool = True, repack: bool = True) -> None:
        """Loads the model.

        Args:
            path: a GGUF file whose header has been checked (`catalog.gguf_header.read_header`): llama.cpp
                aborts the process on some malformed files.
            mmap: map the weights instead of copying them into anonymous memory.
            repack: let llama.cpp keep a second copy of some weights in the layout its kernels like best.

        Raises:
            ModelFormatError: llama.cpp refuses the file, or it is not a text generation model.
        """
        self.path = path
        self._handle = binding.load_model(path, mmap=mmap, repack=repack)
        self.vocabulary = Vocabulary(binding.vocabulary(self._handle))
        self.sliding_window_tokens = binding.sliding_window(self._handle)
        if self.vocabulary.size == 0 or binding.has_encoder(self._handle):
            self.close()
            raise ModelFormatError(
                f"{path.name} is not a text generation model.",
                hint="Take a decoder-only language model with its tokenizer.",
            )

    @property
    def handle(self) -> binding.Handle:
        """For `LlamaContext` only."""
        return self._handle

    @functools.cached_property
    def chat_template(self) -> ChatTemplate:
        """The model's chat template.

        Raises:
            ConfigError: the file has none (a base model).
        """
        template = binding.chat_template(self._handle)
        if template is None:
            raise ConfigError(
                f"{self.path.name} has no chat template: it is a base model, not trained for conversation.",
                hint="Pass --raw to let it continue a text.",
            )
        return ChatTemplate(template, self.vocabulary)

    def close(self) -> None:
        """Frees the weights; safe to call twice."""
        if self._handle is not None:
            binding.free_model(self._handle)
            self._handle = None

    def __enter__(self) -> LlamaModel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
