"""The command group, and what happens when a command fails."""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
from collections.abc import Sequence

import click

from homespec import __version__
from homespec.cli.config import load_defaults
from homespec.errors import INTERRUPTED_EXIT_CODE, DecodeAbortedError, HomespecError

# Command -> module in this package that defines it as `command`, and its line in --help (asking the module
# for it would import them all).
_COMMANDS = {
    "run": "Answer one prompt.",
    "chat": "Talk with a model.",
    "plan": "Plan memory, with and without a drafter; loads nothing.",
    "calibrate": "Measure what decodes cost on this machine.",
    "draft": "Make, try and choose draft models.",
    "models": "List, get, check and remove models.",
    "bench": "Measure what speculation gains on this machine.",
    "sessions": "List, show and remove conversations.",
    "doctor": "Show how homespec sees this machine.",
}


class _LazyGroup(click.Group):
    """Imports a command when it is called, so that `--help` is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"homespec.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(
    cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="homespec")
@click.option("-v", "--verbose", is_flag=True, help="Show what llama.cpp and homespec log.")
@click.pass_context
def cli(context: click.Context, verbose: bool) -> None:
    """Language models that answer faster on machines without a GPU, and say the same."""
    _set_up_logging(verbose)
    context.default_map = load_defaults()


def _set_up_logging(verbose: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("homespec")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.WARNING)
    # llama.cpp warns about much that a user can do nothing about; a failed call is told as an error of ours.
    logging.getLogger("homespec.llama_cpp").setLevel(logging.DEBUG if verbose else logging.CRITICAL)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = cli.main(arguments, prog_name="homespec", standalone_mode=False)
        sys.stdout.flush()
    except DecodeAbortedError as error:
        # Stopped before there was anything to show: while a model was opened or measured.
        code = error.exit_code
        _report(error.code, "Interrupted.", "", as_json="--json" in arguments)
    except HomespecError as error:
        code = error.exit_code
        _report(error.code, error.message, error.hint, as_json="--json" in arguments)
    except click.Abort:
        click.echo("Interrupted.", err=True)
        code = INTERRUPTED_EXIT_CODE
    except click.ClickException as error:
        code = error.exit_code
        context = error.ctx if isinstance(error, click.UsageError) else None
        hint = f"{context.command_path} --help" if context else ""
        _report("usage", error.format_message(), hint, as_json="--json" in arguments)
    except BrokenPipeError:
        # Whoever read our output has gone (`| head`); Python must not complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def _report(code: str, message: str, hint: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(
            json.dumps({"error": {"code": code, "message": message, "hint": hint}}, ensure_ascii=False)
        )
    click.echo(click.style("Error: ", fg="red", bold=True) + message, err=True)
    if hint:
        click.echo(click.style("Hint: ", bold=True) + hint, err=True)
