"""Text to tokens and back."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from homespec.runtime import binding


class Vocabulary:
    """The tokenizer of an opened model; valid as long as the model is."""

    def __init__(self, handle: binding.Handle) -> None:
        self._handle = handle
        self.size = binding.vocab_size(handle)
        self.bos_token = binding.bos_token(handle)
        self.eos_token = binding.eos_token(handle)
        self.adds_bos = binding.adds_bos(handle)
        self._bytes: dict[int, bytes] = {}

    def tokenize(self, text: str, *, add_special: bool = False, parse_special: bool = False) -> list[int]:
        """Tokens of a text.

        Args:
            text: any text; unpaired surrogates become replacement characters.
            add_special: put BOS and EOS where the model wants them.
            parse_special: read the texts of control tokens as those tokens. Never for text from users.
        """
        encoded = text.encode("utf-8", "replace")
        return binding.tokenize(self._handle, encoded, add_special=add_special, parse_special=parse_special)

    def token_bytes(self, token: int) -> bytes:
        """The bytes that a token adds to the text; empty for control tokens. Often part of a character."""
        cached = self._bytes.get(token)
        if cached is None:
            cached = self._bytes[token] = binding.token_bytes(self._handle, token)
        return cached

    def text(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without control tokens."""
        return b"".join(map(self.token_bytes, tokens)).decode("utf-8", "replace")

    def token_text(self, token: int | None) -> str:
        """The token as the vocabulary writes it, control tokens too; empty for None."""
        return "" if token is None else binding.token_text(self._handle, token)

    def is_end(self, token: int) -> bool:
        """Whether the token ends a reply."""
        return binding.is_end_token(self._handle, token)

    @functools.cached_property
    def control_texts(self) -> dict[str, int]:
        """The text of every control token and its id, longest text first."""
        found = {
            self.token_text(token): token
            for token in range(self.size)
            if binding.is_control_token(self._handle, token)
        }
        found.pop("", None)
        return dict(sorted(found.items(), key=lambda item: -len(item[0])))
