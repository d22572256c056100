"""The target's own greedy replies: what draft models are judged by, kept on disk for the next time."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path

from homespec.calibration.fingerprint import model_identity
from homespec.engine.engine import Engine
from homespec.errors import ContextOverflowError
from homespec.records import Message, RequestParams, SamplingParams
from homespec.runtime.atomic import write_atomically
from homespec.runtime.state import state_directory

REPLY_TOKENS = 96
_GREEDY = RequestParams(SamplingParams(temperature=0.0), max_tokens=REPLY_TOKENS)
# Of each use: some twenty replies tell 0.1 of the mean acceptance length apart, and every draft model on
# trial has to read them all.
_ENOUGH_TOKENS = 5_000
# A reply shorter than this has no room for the drafts that are to be judged.
_LEAST_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a reply is asked for.

    Attributes:
        kind: of text; everything is weighed and learned per kind.
        text: of the user's message.
        counted: its reply may be used to choose what a reduced model keeps, and not to judge it.
    """

    kind: str
    text: str
    counted: bool


@dataclass(frozen=True, slots=True)
class Passage:
    """A prompt with the target's greedy reply.

    Attributes:
        kind, counted: of the prompt.
        tokens: of the prompt in the chat template, and of the reply.
        num_prompt_tokens: how many of them are the prompt's.
    """

    kind: str
    counted: bool
    tokens: tuple[int, ...]
    num_prompt_tokens: int

    @property
    def num_reply_tokens(self) -> int:
        """How many are the reply's."""
        return len(self.tokens) - self.num_prompt_tokens


def in_turn(texts: Sequence[tuple[str, Sequence[str]]]) -> list[Prompt]:
    """Prompts of several kinds, so ordered that any beginning of the list holds all kinds, and both uses.

    The shortest of each kind come first, since reading a prompt takes time and is not what is judged.

    Args:
        texts: kinds of text, each with its prompts.
    """
    columns = [
        [Prompt(kind, text, counted=bool(number % 2)) for number, text in enumerate(sorted(prompts, key=len))]
        for kind, prompts in texts
    ]
    return [prompt for row in zip_longest(*columns) for prompt in row if prompt is not None]


def collect(
    engine: Engine,
    prompts: Sequence[Prompt],
    has_time: Callable[[], bool],
    progress: Callable[[float], None] = lambda share: None,
) -> list[Passage]:
    """Replies to the prompts, from disk or generated now, until they are enough or there is no more time.

    Each is stored as soon as it is there, so that an interruption loses one at most.

    Args:
        engine: the target's.
        prompts: in the order in which they are answered.
        has_time: asked before each; at least one of each use is generated.
        progress: told the share of the prompts that is done.

    Raises:
        DecodeAbortedError: stopped on request.
    """
    passages: list[Passage] = []
    num_tokens = {True: 0, False: 0}
    identity = model_identity(engine.preparation.target.model.path)
    for number, prompt in enumerate(prompts):
        progress(number / len(prompts))
        if num_tokens[prompt.counted] >= _ENOUGH_TOKENS:
            continue
        path = _path(identity, prompt)
        known = _load(path)
        if known is None and (num_tokens[prompt.counted] == 0 or has_time()):
            known = _generate(engine, prompt)
            if known is not None:
                with contextlib.suppress(OSError):
                    write_atomically(path, json.dumps(asdict(known)))
        if known is not None and known.num_reply_tokens >= _LEAST_TOKENS:
            passages.append(known)
            num_tokens[prompt.counted] += len(known.tokens)
    return passages


def _generate(engine: Engine, prompt: Prompt) -> Passage | None:
    tokens = engine.chat_tokens([Message("user", prompt.text)])
    try:
        generation = engine.generate(tokens, _GREEDY)
    except ContextOverflowError:
        return None
    for _ in generation:
        pass
    reply = generation.reply
    if reply.finish_reason == "interrupted":
        raise KeyboardInterrupt
    return Passage(prompt.kind, prompt.counted, (*tokens, *reply.token_ids), len(tokens))


def _path(identity: str, prompt: Prompt) -> Path:
    digest = hashlib.sha256(f"{REPLY_TOKENS} {prompt}".encode()).hexdigest()
    return state_directory() / "replies" / identity[:16] / f"{digest[:24]}.json"


def _load(path: Path) -> Passage | None:
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, OverflowError):
        known = json.loads(path.read_text(encoding="utf-8"))
        passage = Passage(
            kind=str(known["kind"]),
            counted=known["counted"] is True,
            tokens=tuple(map(int, known["tokens"])),
            num_prompt_tokens=int(known["num_prompt_tokens"]),
        )
        if 0 < passage.num_prompt_tokens <= len(passage.tokens):
            return passage
    return None


def usual_texts(most_bytes: int = 3_000_000) -> Iterator[str]:
    """Code and English prose that are on every machine with Python: its own library.

    Replies show what the target likes to say about the prompts at hand; how common the many other tokens are
    in general is better counted on much text than guessed.
    """
    library = Path(contextlib.__file__).parent
    left = most_bytes
    for path in [library / "pydoc_data" / "topics.py", *sorted(library.glob("*.py"))]:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            text = path.read_text(encoding="utf-8")
            left -= len(text)
            yield text
        if left < 0:
            return
