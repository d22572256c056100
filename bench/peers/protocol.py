"""What the bench and its workers say to each other: a JSON object a line, on the worker's stdin and stdout.

    {"open": {"target": "model.gguf", "num_threads": 2, ...}}    -> {"opened": {"version": ..., ...}}
    {"prompt_tokens": [...], "max_tokens": 128, ...}             -> {"text": ..., "seconds": ..., ...}

A worker that could not do it answers {"error": "..."}; it ends when its stdin does. Only the standard library
is used here: workers run in environments that have nothing else.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol, TextIO


@dataclass(frozen=True, slots=True)
class Opening:
    """What a worker opens.

    Attributes:
        target: path of the GGUF file.
        draft: path of the draft model; None without one.
        context_tokens: size of the target's context.
        num_threads: for every decode, of one token or of many.
        settings: what the arm says; each program has its own.
    """

    target: str
    draft: str | None
    context_tokens: int
    num_threads: int
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt.

    Attributes:
        prompt_tokens: the prompt behind the chat template.
        prompt_text: the same as text, control tokens written out, for programs that take no tokens.
        max_tokens: the most tokens of the reply.
        temperature: 0 is greedy; otherwise nothing but the temperature shapes the distribution.
        seed: of the sampling.
    """

    prompt_tokens: Sequence[int]
    prompt_text: str
    max_tokens: int
    temperature: float
    seed: int


@dataclass(frozen=True, slots=True)
class Answer:
    """One reply and its figures; None is what a program does not tell.

    Attributes:
        text: without control tokens.
        finish_reason: stop or length.
        num_tokens: of the reply, the token that ends it included, since it cost as much as any other.
        prompt_tokens: of the prompt, as the program counts them.
        seconds: of the whole request, as its caller sees it.
        ttft_seconds: until the first token, or the first step's.
        prompt_seconds: decoding the prompt.
        decode_tokens, decode_seconds: after the first token, or the first step's.
        reused_prompt_tokens: found in a cache; anything but 0 would be unfair.
        num_draft_tokens, num_accepted_tokens: of all drafts.
        details: further figures, kept with the results.
    """

    text: str
    finish_reason: str
    num_tokens: int
    prompt_tokens: int
    seconds: float
    ttft_seconds: float
    prompt_seconds: float
    decode_tokens: int
    decode_seconds: float
    reused_prompt_tokens: int | None = None
    num_draft_tokens: int | None = None
    num_accepted_tokens: int | None = None
    details: Mapping[str, object] = field(default_factory=dict)


class Program(Protocol):
    """What a module of `programs/` opens. Between two answers it computes nothing."""

    @property
    def facts(self) -> Mapping[str, object]:
        """Version, build and whatever else says what was measured."""
        ...

    def answer(self, request: Request) -> Answer:
        """Answers from an empty prompt cache."""
        ...

    def close(self) -> None:
        """Ends what was opened, child processes too."""
        ...


def serve(open_program: Callable[[Opening], Program]) -> None:
    """A worker's main loop."""
    answers = _claim_stdout()
    program: Program | None = None
    try:
        for line in sys.stdin:
            message = json.loads(line)
            try:
                if "open" in message:
                    program = open_program(Opening(**message["open"]))
                    answer: Mapping[str, object] = {"opened": program.facts}
                elif program is None:
                    answer = {"error": "nothing was opened"}
                else:
                    answer = asdict(program.answer(Request(**message)))
            except Exception as error:  # noqa: BLE001 - whatever a peer raises, the bench goes on without it
                answer = {"error": f"{type(error).__name__}: {error}"}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    finally:
        if program is not None:
            program.close()


def _claim_stdout() -> TextIO:
    """Stdout for the protocol alone: what libraries print there goes to stderr from now on."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers
