"""Conversation to tokens, through the model's own chat template."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
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

        Replies keep the tokens that they were generated as, where those are known and it makes no difference
        to the text: the KV cache then holds them already.

        Raises:
            ConfigError: the template refuses the conversation (for example a system message).
        """
        plain = self._tokens(messages, {})
        replies = {i: kept for i, message in enumerate(messages) if (kept := self._kept_tokens(message))}
        if not replies:
            return plain
        tokens = self._tokens(messages, replies)
        # A template may trim replies, or take parts out.
        return tokens if self._spelled(tokens) == self._spelled(plain) else plain

    def _tokens(self, messages: Sequence[Message], replies: dict[int, list[int]]) -> list[int]:
        """The prompt, with the given tokens in place of the content of some messages, by their number."""
        texts = [message.content for message in messages]
        joined = "\n".join(texts)
        free = (chr(c) for c in range(_PRIVATE_FIRST, _PRIVATE_LAST) if chr(c) not in joined)
        substitutes = self._substitutes(texts, free)
        kept = {next(free): tokens for tokens in replies.values()}
        contents = [_replace(text, substitutes) for text in texts]
        for number, mark in zip(replies, kept, strict=True):
            contents[number] = mark
        text = self._render(messages, contents)
        literals = {mark: literal for literal, mark in substitutes.items()}
        tokens: list[int] = []
        # An empty set of characters is no pattern.
        for i, run in enumerate(re.split(f"([{''.join(kept)}])", text) if kept else [text]):
            tokens += kept[run] if i % 2 else self._tokenize(run, literals)
        bos = self._vocabulary.bos_token
        # Many templates write BOS themselves; asking the tokenizer for it as well would double it.
        if self._vocabulary.adds_bos and bos is not None and tokens[:1] != [bos]:
            tokens.insert(0, bos)
        return tokens

    def _kept_tokens(self, message: Message) -> list[int]:
        """The known tokens of a reply without the one that ended it, which the template writes.

        Empty where they do not spell the reply: it was cut at a stop string, or another model gave it.
        Control tokens spell nothing, and are not taken from a reply.
        """
        tokens, vocabulary = list(message.token_ids), self._vocabulary
        if not all(0 <= token < vocabulary.size for token in tokens):
            return []
        if tokens and vocabulary.is_end(tokens[-1]):
            tokens.pop()
        if not all(map(vocabulary.token_bytes, tokens)):
            return []
        return tokens if self._spelled(tokens) == message.content.encode("utf-8", "replace") else []

    def _spelled(self, tokens: Sequence[int]) -> bytes:
        return b"".join(map(self._vocabulary.token_bytes, tokens))

    def _render(self, messages: Sequence[Message], contents: Sequence[str]) -> str:
        """The conversation as text, each message with the content given for it."""
        rendered: list[Any] = [
            {"role": message.role, "content": content}
            for message, content in zip(messages, contents, strict=True)
        ]
        try:
            return str(self._formatter(messages=rendered).prompt)
        except Exception as error:
            raise ConfigError(
                f"The model's chat template refuses this conversation: {error}.",
                hint="Leave out --system, or pass --raw to prompt without the template.",
            ) from error

    def _substitutes(self, texts: Sequence[str], free: Iterator[str]) -> dict[str, str]:
        """For each control token written out in a message, a private character to stand for it."""
        if all(self._is_plain(text) for text in texts):
            return {}
        joined = "\n".join(texts)
        return {literal: next(free) for literal in self._vocabulary.control_texts if literal in joined}

    def _is_plain(self, text: str) -> bool:
        # Cheaper than to look for every control token's text: most messages contain none.
        tokenize = self._vocabulary.tokenize
        return tokenize(text, parse_special=True) == tokenize(text)

    def _tokenize(self, text: str, literals: dict[str, str]) -> list[int]:
        """Tokenizes runs between control tokens, as llama.cpp does, with the literals put back first."""
        if not literals:
            return self._vocabulary.tokenize(text, parse_special=True)
        controls = self._vocabulary.control_texts
        splitter = re.compile("(" + "|".join(map(re.escape, controls)) + ")")
        tokens: list[int] = []
        for i, run in enumerate(splitter.split(text)):
            if i % 2:
                tokens.append(controls[run])
            elif run:
                tokens += self._vocabulary.tokenize(_replace(run, literals))
        return tokens


def _replace(text: str, replacements: dict[str, str]) -> str:
    """The text with each key replaced by its value, in their order."""
    return functools.reduce(lambda text, old: text.replace(old, replacements[old]), replacements, text)
