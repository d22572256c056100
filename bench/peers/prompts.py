"""Suites of prompts, behind the target's chat template: every peer gets the same tokens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from homespec.errors import ConfigError
from homespec.records import Message
from homespec.runtime.model import LlamaModel
from homespec.runtime.vocabulary import Vocabulary

WARM_UP = "Name three colours."


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of a suite.

    Attributes:
        suite: name of the suite.
        number: in the suite, from 0.
        text: as its author wrote it.
    """

    suite: str
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt behind the chat template.

    Attributes:
        tokens: of the prompt.
        text: the same, with control tokens written out.
    """

    tokens: tuple[int, ...]
    text: str


def read_suites(paths: Sequence[Path], num_prompts: int) -> list[Prompt]:
    """The first prompts of each suite, a file with one {"prompt": ...} a line.

    Raises:
        ConfigError: a suite cannot be read, is empty, or bears another one's name.
    """
    suites = [path.stem for path in paths]
    if len(set(suites)) < len(suites):
        raise ConfigError("Two suites have the same name.", hint="Rename one of the files.")
    prompts: list[Prompt] = []
    for path in paths:
        try:
            lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
            texts = [str(json.loads(line)["prompt"]) for line in lines[:num_prompts]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path} cannot be read as prompts: {error}.", hint='It needs one {"prompt": "..."} a line.'
            ) from error
        if not texts:
            raise ConfigError(f"{path} has no prompts.", hint='It needs one {"prompt": "..."} a line.')
        prompts += [Prompt(path.stem, number, text) for number, text in enumerate(texts)]
    return prompts


def render(target: Path, texts: Sequence[str]) -> list[Rendered]:
    """Puts texts behind the target's chat template.

    Raises:
        HomespecError: the model cannot be opened, or has no template.
    """
    # Nothing is decoded, so the weights are only mapped.
    with LlamaModel(target, repack=False) as model:
        rendered = (tuple(model.chat_template.tokens([Message("user", text)])) for text in texts)
        return [Rendered(tokens, _spell(model.vocabulary, tokens)) for tokens in rendered]


def _spell(vocabulary: Vocabulary, tokens: Sequence[int]) -> str:
    pieces = (vocabulary.token_bytes(token) or vocabulary.token_text(token).encode() for token in tokens)
    return b"".join(pieces).decode("utf-8", "replace")
