"""Conversation to tokens, through the model's own chat template."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

from homespec.errors import ConfigError
from homespec.records import Message
from homespec.runtime.vocabulary import Vocabulary

# Characters of the last private-use plane stand for control tokens that a user wrote out in a message.
_PRIVATE_FIRST, _PRIVATE_LAST = 0x100000, 0x10FFFD


class ChatTemplate:
    """A chat template, rendered by llama_cpp's sandboxed Jinja formatter.

    Control tokens come from the template alone. A message that contains the text of one (say
    `<|im_end|>`) is tokenized as that text: the sender cannot end his turn or open another's.
    """

    def __init__(self, template: str, vocabulary: Vocabulary) -> None:
        # Imported here: the formatter brings half of llama_cpp's Python layer with it.
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter

        self._vocabulary = vocabulary
        self._formatter = Jinja2ChatFormatter(
            template=template,
            bos_token=vocabulary.token_text(vocabulary.bos_token),
            eos_token=vocabulary.token_text(vocabulary.eos_token),
        )

    def tokens(self, messages: Sequence[Message]) -> list[int]:
        """The prompt that asks for the assistant's next message.

        Raises:
            ConfigError: the template refuses the conversation (for example a system message).
        """
        substitutes = self._substitutes(messages)
        text = self._render(messages, substitutes)
        if substitutes:
            tokens = self._tokenize_with_literals(
                text, {mark: literal for literal, mark in substitutes.items()}
            )
        else:
            tokens = self._vocabulary.tokenize(text, parse_special=True)
        bos = self._vocabulary.bos_token
        # Many templates write BOS themselves; asking the tokenizer for it as well would double it.
        if self._vocabulary.adds_bos and bos is not None and tokens[:1] != [bos]:
            tokens.insert(0, bos)
        return tokens

    def _render(self, messages: Sequence[Message], substitutes: dict[str, str]) -> str:
        rendered: list[Any] = []
        for message in messages:
            content = message.content
            for literal, mark in substitutes.items():
                content = content.replace(literal, mark)
            rendered.append({"role": message.role, "content": content})
        try:
            return str(self._formatter(messages=rendered).prompt)
        except Exception as error:
            raise ConfigError(
                f"The model's chat template refuses this conversation: {error}.",
                hint="Leave out --system, or pass --raw to prompt without the template.",
            ) from error

    def _substitutes(self, messages: Sequence[Message]) -> dict[str, str]:
        """For each control token written out in a message, a private character to stand for it."""
        texts = [message.content for message in messages]
        if all(self._is_plain(text) for text in texts):
            return {}
        joined = "\n".join(texts)
        free = (chr(c) for c in range(_PRIVATE_FIRST, _PRIVATE_LAST) if chr(c) not in joined)
        return {literal: next(free) for literal in self._vocabulary.control_texts if literal in joined}

    def _is_plain(self, text: str) -> bool:
        # Cheaper than to look for every control token's text: most messages contain none.
        tokenize = self._vocabulary.tokenize
        return tokenize(text, parse_special=True) == tokenize(text)

    def _tokenize_with_literals(self, text: str, literals: dict[str, str]) -> list[int]:
        """Tokenizes runs between control tokens, as llama.cpp does, with the literals put back first."""
        controls = self._vocabulary.control_texts
        splitter = re.compile("(" + "|".join(map(re.escape, controls)) + ")")
        tokens: list[int] = []
        for i, run in enumerate(splitter.split(text)):
            if i % 2:
                tokens.append(controls[run])
            elif run:
                plain = functools.reduce(lambda text, mark: text.replace(mark, literals[mark]), literals, run)
                tokens += self._vocabulary.tokenize(plain)
        return tokens
