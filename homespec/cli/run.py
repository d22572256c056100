"""`homespec run`: one prompt, one answer."""

from __future__ import annotations

import dataclasses
import json
import secrets
import sys
from typing import TYPE_CHECKING, Any

import click

from homespec.cli.config import check_keys
from homespec.cli.options import DEFAULT_MODEL, MEMORY_OPTIONS, Decorator, option, options, parse_settings
from homespec.cli.progress import told_once
from homespec.errors import INTERRUPTED_EXIT_CODE, ConfigError

if TYPE_CHECKING:
    from homespec.engine.engine import Engine
    from homespec.engine.generation import Generation
    from homespec.engine.settings import EngineSettings
    from homespec.records import RequestParams


MODEL_OPTIONS: list[Decorator] = [
    option(
        "-m",
        "--model",
        default=DEFAULT_MODEL,
        help="Target: a name of `homespec models list`, or a GGUF file.",
    ),
    *MEMORY_OPTIONS,
    option("--force", is_flag=True, help="Load what the memory plan refuses."),
    option(
        "--strict",
        is_flag=True,
        help="Draft only so far as logits were measured to be those of plain decoding, bit by bit.",
    ),
    option(
        "--pin-control",
        is_flag=True,
        help="Choose draft lengths by stored costs, so that a run repeats; implied by --seed.",
    ),
    option(
        "--calibrate/--no-calibrate",
        default=True,
        help="Measure the machine when a model is used for the first time (up to 20 s).",
    ),
    option(
        "--draft-min-confidence",
        type=float,
        default=0.4,
        help="Stop drafting where the draft model is less sure.",
    ),
    option(
        "-t", "--threads", type=int, help="Threads for one token.  [default: measured, or the fast cores]"
    ),
    option(
        "--threads-batch", type=int, help="Threads for several tokens.  [default: measured, or as --threads]"
    ),
]
SAMPLING_OPTIONS: list[Decorator] = [
    option(
        "-n",
        "--max-tokens",
        type=int,
        help="The most tokens of the answer.  [default: what the context holds]",
    ),
    option("--temperature", type=float, default=0.8, help="0 always takes the most probable token."),
    option("--top-k", type=int, default=40, help="Keep the k most probable tokens; 0 is off."),
    option(
        "--top-p", type=float, default=0.95, help="Keep the most probable tokens up to this mass; 1 is off."
    ),
    option(
        "--min-p",
        type=float,
        default=0.05,
        help="Keep tokens at least this fraction as probable as the first.",
    ),
    option(
        "--repeat-penalty", type=float, default=1.0, help="Make tokens of the window less likely; 1 is off."
    ),
    option("--presence-penalty", type=float, default=0.0, help="Subtracted once from logits of such tokens."),
    option("--frequency-penalty", type=float, default=0.0, help="Subtracted once per occurrence."),
    option("--penalty-window", type=int, default=64, help="Tokens that penalties look back; 0 is all."),
    option(
        "--logit-bias",
        multiple=True,
        metavar="ID=VALUE",
        help="Add to a token's logit; -inf bans it. Repeatable.",
    ),
    option(
        "--seed", type=int, help="Of the random generator; repeats a run.  [default: a new one each time]"
    ),
    option("--stop", multiple=True, metavar="TEXT", help="End the answer before this text. Repeatable."),
    option(
        "--verifier",
        type=click.Choice(["greedy", "rejection", "block", "coupled"]),
        help="How drafts are judged; all keep the target's law.  [default: greedy or rejection]",
    ),
    option("--grammar", help="Not supported yet: refused rather than ignored."),
    option("--json-schema", help="Not supported yet: refused rather than ignored."),
]


@click.command()
@click.argument("prompt", required=False)
@options(MODEL_OPTIONS)
@options(SAMPLING_OPTIONS)
@option("-s", "--system", help="System message; @FILE reads it from a file.")
@click.option("--raw", is_flag=True, help="Continue the prompt as it is, without the chat template.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the text.")
@option("--stats/--no-stats", default=True, help="End with a line of figures on stderr.")
@click.pass_context
def command(context: click.Context, /, prompt: str | None, **values: Any) -> None:
    """Answer one PROMPT ("-", or nothing with a pipe, reads it from stdin).

    The answer goes to stdout, everything else to stderr. Ctrl-C ends the answer and keeps what there is.

    \b
    homespec run "Why is the sky blue?"
    homespec run -m qwen2.5-coder-1.5b-instruct -d qwen2.5-coder-0.5b-instruct "Write quicksort in Python."
    git diff | homespec run -s "Write a commit message." -
    """  # noqa: D301 - \b keeps click from joining the lines
    check_keys("run", {parameter.name or "" for parameter in context.command.params}, context.default_map)
    # A seed is given to see a text again: the clock must then have no say in it.
    values["pin_control"] |= values["seed"] is not None
    settings, params = parse_settings(values["model"], values), make_params(values)
    context.exit(_run(settings, params, _read_prompt(prompt), values))


def make_params(values: dict[str, Any]) -> RequestParams:
    """The values of SAMPLING_OPTIONS.

    Raises:
        ConfigError: a value is not of its kind.
    """
    from homespec.records import RequestParams, SamplingParams

    for name in ("grammar", "json_schema"):
        if values[name] is not None:
            raise ConfigError(
                f"--{name.replace('_', '-')} is not supported yet: the verifiers do not constrain tokens.",
                hint="Leave it out, and describe the form in the prompt.",
            )
    seed = values["seed"]
    return RequestParams(
        sampling=SamplingParams(
            logit_bias=tuple(_parse_bias(text) for text in values["logit_bias"]),
            repeat_penalty=values["repeat_penalty"],
            presence_penalty=values["presence_penalty"],
            frequency_penalty=values["frequency_penalty"],
            penalty_window_tokens=values["penalty_window"],
            temperature=values["temperature"],
            top_k=values["top_k"],
            top_p=values["top_p"],
            min_p=values["min_p"],
            seed=secrets.randbits(32) if seed is None else seed,
        ),
        verifier=values["verifier"],
        max_tokens=values["max_tokens"],
        stop=values["stop"],
    )


def _parse_bias(text: str) -> tuple[int, float]:
    token, _, value = text.partition("=")
    try:
        return int(token), float(value)
    except ValueError:
        raise ConfigError(
            f"--logit-bias {text!r} is not a token id and a number.", hint="Write 1234=-inf."
        ) from None


def _read_prompt(prompt: str | None) -> str:
    if prompt is not None and prompt != "-":
        return prompt
    if prompt is None and sys.stdin.isatty():
        raise ConfigError("There is no prompt.", hint='Write one: homespec run "Why is the sky blue?"')
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def read_system(text: str | None) -> str | None:
    """The system message of `--system`, read from the file where one is named.

    Raises:
        ConfigError: it cannot be read.
    """
    if text is None or not text.startswith("@"):
        return text
    try:
        with open(text[1:], encoding="utf-8") as file:  # noqa: PTH123 - a path from the command line
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"--system cannot read {text[1:]}: {error}.", hint="Name a text file after the @."
        ) from None


def _run(settings: EngineSettings, params: RequestParams, text: str, values: dict[str, Any]) -> int:
    from homespec.engine.engine import Engine
    from homespec.runtime.binding import AbortFlag
    from homespec.runtime.interrupt import abort_on_interrupt

    system = read_system(values["system"])
    abort = AbortFlag()
    with (
        abort_on_interrupt(abort),
        told_once("Measuring how fast this machine is with this model, once") as progress,
    ):
        engine = Engine(settings, progress=progress, abort=abort)
    with engine:
        if abort.is_set:
            raise click.Abort
        tokens = _prompt_tokens(engine, text, system, raw=values["raw"])
        generation = engine.generate(tokens, params)
        with abort_on_interrupt(engine.abort):
            _show(generation, quiet=values["as_json"])
        reply = generation.reply
    if values["as_json"]:
        click.echo(json.dumps(dataclasses.asdict(reply), ensure_ascii=False))
    if values["stats"]:
        from homespec.cli.stats import stats_line

        click.echo(click.style(stats_line(reply), dim=True), err=True)
    return INTERRUPTED_EXIT_CODE if reply.finish_reason == "interrupted" else 0


def _prompt_tokens(engine: Engine, text: str, system: str | None, *, raw: bool) -> list[int]:
    from homespec.records import Message

    if not raw:
        opening = [Message("system", system)] if system else []
        return engine.chat_tokens([*opening, Message("user", text)])
    if system:
        raise ConfigError("--raw has no place for --system.", hint="Put it into the prompt.")
    return engine.vocabulary.tokenize(text, add_special=True)


def _show(generation: Generation, *, quiet: bool) -> None:
    """Runs the generation and streams its text to stdout, ending with a line break."""
    last = "\n"
    for piece in generation:
        if not quiet:
            sys.stdout.write(piece)
            sys.stdout.flush()
        last = piece
    if not quiet and not last.endswith("\n"):
        sys.stdout.write("\n")
