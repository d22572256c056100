"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from homespec.errors import ConfigError

if TYPE_CHECKING:
    from homespec.engine.settings import EngineSettings

Decorator = Callable[[Callable[..., None]], Callable[..., None]]

DEFAULT_MODEL = "smollm2-135m-instruct"


def option(*names: str, **attributes: Any) -> Decorator:
    """An option that `HOMESPEC_<NAME>` can set as well."""
    long_name = max(names, key=len).split("/")[0]
    variable = "HOMESPEC_" + long_name.removeprefix("--").replace("-", "_").upper()
    attributes.setdefault("show_default", attributes.get("default") is not None)
    return click.option(*names, envvar=variable, **attributes)


def options(decorators: list[Decorator]) -> Decorator:
    """Several options at once, in this order in `--help`."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


# What decides about memory: `plan` and every command that opens models.
MEMORY_OPTIONS = [
    option(
        "-d",
        "--draft",
        default="auto",
        help="auto, off, ngram, or a draft model's name or file; `ngram+NAME` asks one after the other.",
    ),
    option(
        "--corpus",
        type=click.Path(),
        multiple=True,
        metavar="FILE",
        help="Text that answers may quote, for n-gram lookup; a directory: all text below it. Repeatable.",
    ),
    option(
        "--draft-length",
        metavar="N|auto",
        default="auto",
        help="Tokens drafted per step; auto takes, step by step, what pays on this machine.",
    ),
    option(
        "-c",
        "--context-tokens",
        metavar="N|max",
        help="Context size; max is the largest that fits.  [default: 4096, or less if trained on less]",
    ),
    option("--kv", type=click.Choice(["f16", "q8_0", "q4_0"]), default="f16", help="Type of the KV cache."),
    option(
        "--prefer",
        type=click.Choice(["context", "speed"]),
        default="context",
        help="speed lets a draft model take context away.",
    ),
    option("--memory", metavar="SIZE", help="Plan for a machine with this much memory, such as 4GiB."),
    option("--mmap/--no-mmap", default=True, help="Map the model file instead of reading it."),
    option("--repack/--no-repack", default=True, help="Let llama.cpp keep weights in its faster layout."),
]


def parse_settings(target: str, values: dict[str, Any]) -> EngineSettings:
    """The values of MEMORY_OPTIONS, and of `run`'s options for models where present.

    Raises:
        ConfigError: a value is not of its kind.
    """
    from homespec.engine.settings import EngineSettings
    from homespec.units import parse_bytes

    context = values["context_tokens"]
    others = {
        "corpus": "corpus",
        "strict": "strict",
        "pin_control": "pin_control",
        "calibrate": "calibrate",
        "min_confidence": "draft_min_confidence",
        "num_threads": "threads",
        "num_batch_threads": "threads_batch",
        "force": "force",
    }
    return EngineSettings(
        target=target,
        draft=values["draft"],
        draft_length=_parse_number("--draft-length", values["draft_length"], "auto"),
        context_tokens="max" if context == "max" else _parse_number("--context-tokens", context, "max"),
        kv_type=values["kv"],
        prefer=values["prefer"],
        memory_bytes=None if values["memory"] is None else parse_bytes(values["memory"]),
        mmap=values["mmap"],
        repack=values["repack"],
        **{field: values[name] for field, name in others.items() if name in values},
    )


def _parse_number(name: str, text: str | int | None, word: str) -> int | None:
    """A whole number; None for the option's word, or where nothing was given."""
    if text is None or text == word:
        return None
    try:
        return int(text)
    except ValueError:
        raise ConfigError(
            f"{name} {text!r} is neither a number nor {word}.", hint=f"Pass {name} with a number, or {word}."
        ) from None
