"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

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
        "--draft-length", type=int, default=5, help="The most tokens drafted per step; 0 decodes plainly."
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

    others = {
        "min_confidence": "draft_min_confidence",
        "num_threads": "threads",
        "num_batch_threads": "threads_batch",
        "force": "force",
    }
    return EngineSettings(
        target=target,
        draft=values["draft"],
        draft_length=values["draft_length"],
        context_tokens=_parse_context_tokens(values["context_tokens"]),
        kv_type=values["kv"],
        prefer=values["prefer"],
        memory_bytes=None if values["memory"] is None else parse_bytes(values["memory"]),
        mmap=values["mmap"],
        repack=values["repack"],
        **{field: values[name] for field, name in others.items() if name in values},
    )


def _parse_context_tokens(text: str | int | None) -> int | Literal["max"] | None:
    if text is None:
        return None
    if text == "max":
        return "max"
    try:
        return int(text)
    except ValueError:
        raise ConfigError(
            f"--context-tokens {text!r} is neither a number nor max.", hint="Pass --context-tokens 4096."
        ) from None
