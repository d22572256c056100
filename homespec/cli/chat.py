"""`homespec chat`: a conversation."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource

from homespec.cli.config import check_keys
from homespec.cli.options import DEFAULT_MODEL, Decorator, option, options, parse_settings
from homespec.cli.progress import told_once
from homespec.cli.run import MODEL_OPTIONS, SAMPLING_OPTIONS, make_params, read_system
from homespec.errors import ConfigError, SessionNotFoundError

if TYPE_CHECKING:
    from homespec.chat.chat import Chat
    from homespec.chat.parameters import Parameters
    from homespec.chat.reading import Reader
    from homespec.chat.terminal import Terminal
    from homespec.engine.engine import Engine
    from homespec.engine.settings import EngineSettings
    from homespec.sessions.log import SessionLog

_CHAT_OPTIONS: list[Decorator] = [
    option("-s", "--system", help="System message; @FILE reads it from a file."),
    click.option("--continue", "go_on", is_flag=True, help="Go on with the latest conversation."),
    click.option("--load", metavar="NAME", help="Go on with a conversation of `homespec sessions list`."),
    option(
        "--when-full",
        type=click.Choice(["ask", "drop", "summarize", "stop"]),
        help="What becomes of the oldest turns when the context is full.  [default: ask, in pipes drop]",
    ),
    option("--think", type=click.Choice(["show", "hide"]), help="Thinking.  [default: show, in pipes hide]"),
    option(
        "--keep-cache", is_flag=True, help="Keep the KV cache on disk, to go on without reading all anew."
    ),
    option("--history/--no-history", default=True, help="Keep what is typed, for the next time."),
    option("--plain", is_flag=True, help="Only plain lines, nothing drawn over: for screen readers."),
]


@click.command()
@options(MODEL_OPTIONS)
@options(SAMPLING_OPTIONS)
@options(_CHAT_OPTIONS)
@click.pass_context
def command(context: click.Context, /, **values: Any) -> None:
    """Talk with a model. /help lists the commands, Ctrl-D leaves.

    From a pipe, each line is a message (several between three quotation marks); only replies go to stdout.

    \b
    homespec chat
    homespec chat -m qwen2.5-coder-1.5b-instruct --continue --keep-cache
    printf 'My name is Ada.\\nWhat is my name?\\n' | homespec chat
    """  # noqa: D301 - \b keeps click from joining the lines
    check_keys("chat", {parameter.name or "" for parameter in context.command.params}, context.default_map)
    values["pin_control"] |= values["seed"] is not None
    if not _is_there(values["model"]):
        _first_run(context)
    given = {name for name in values if context.get_parameter_source(name) == ParameterSource.COMMANDLINE}
    context.exit(_chat(values, given))


def _is_there(model: str) -> bool:
    """False where the default model is wanted, and no model is on this machine at all."""
    from homespec.catalog.store import installed

    return model != DEFAULT_MODEL or bool(installed())


def _first_run(context: click.Context) -> NoReturn:
    from homespec.catalog.entries import load_catalog
    from homespec.chat.first_run import first_run_lines
    from homespec.telemetry.machine import read_memory

    for line in first_run_lines(DEFAULT_MODEL, load_catalog().values(), read_memory().headroom_bytes()):
        click.echo(line, err=True)
    context.exit(1)
    raise AssertionError


def _chat(values: dict[str, Any], given: set[str]) -> int:
    from homespec.chat.chat import Chat
    from homespec.chat.fullness import Fullness
    from homespec.chat.terminal import open_terminal
    from homespec.runtime.binding import AbortFlag
    from homespec.runtime.interrupt import abort_on_interrupt
    from homespec.sessions.kv_files import KvFiles

    terminal = open_terminal(os.environ, plain=values["plain"])
    parameters = _parameters(values)
    with _open_log(values, given, parameters) as log:
        abort = AbortFlag()
        settings = parse_settings(log.conversation.model, values)
        with abort_on_interrupt(abort):
            engine = _open_engine(settings, abort)
        if abort.is_set:
            engine.close()
            raise click.Abort
        chat = Chat(
            engine=engine,
            open_engine=lambda settings: _open_engine(settings, abort),
            log=log,
            terminal=terminal,
            parameters=parameters,
            fullness=Fullness(values["when_full"] or ("ask" if terminal.is_interactive else "drop")),
            kv_files=KvFiles() if values["keep_cache"] else None,
        )
        if values["think"]:
            chat.show_thinking = values["think"] == "show"
        return _talk(chat, _reader(terminal, history=values["history"]))


def _talk(chat: Chat, reader: Reader) -> int:
    from homespec.chat.terminal import NoteHandler

    logger = logging.getLogger("homespec")
    before = list(logger.handlers)
    logger.handlers[:] = [NoteHandler(chat.terminal)]
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        return chat.run(reader)
    finally:
        logger.handlers[:] = before
        chat.close()


def _leave(number: int, _frame: object) -> NoReturn:
    # While a line is read: whoever reads it puts the terminal in order on the way out.
    raise SystemExit(128 + number)


def _open_engine(settings: EngineSettings, abort: Any) -> Engine:  # noqa: ANN401 - AbortFlag, of the runtime
    from homespec.engine.engine import Engine

    with told_once("Measuring how fast this machine is with this model, once") as progress:
        return Engine(settings, progress=progress, abort=abort)


def _parameters(values: dict[str, Any]) -> Parameters:
    from homespec.chat.parameters import Parameters

    return Parameters(make_params(values), values["seed"])


def _open_log(values: dict[str, Any], given: set[str], parameters: Parameters) -> SessionLog:
    """The conversation to begin, or to go on with."""
    from homespec.chat.parameters import NAMES
    from homespec.sessions.events import ModelChange, SettingsChange, SystemChange
    from homespec.sessions.log import SessionLog
    from homespec.sessions.store import find_session

    system = read_system(values["system"])
    name = values["load"] or ("latest" if values["go_on"] else None)
    if name is None:
        return SessionLog.create(values["model"], system, parameters.settings())
    try:
        log = SessionLog.open(find_session(name).path)
    except SessionNotFoundError:
        if values["load"]:
            raise
        raise ConfigError("There is no conversation to go on with.", hint="homespec chat") from None
    if "model" in given and values["model"] != log.conversation.model:
        log.append(ModelChange(values["model"]))
    # What the command line says holds from now on, whatever the conversation was set to.
    said = {
        name: values[name] for name in NAMES if name in given and isinstance(values[name], int | float | str)
    }
    if said:
        log.append(SettingsChange(said))
    if system is not None and system != log.conversation.system:
        log.append(SystemChange(system))
    return log


def _reader(terminal: Terminal, *, history: bool) -> Reader:
    from homespec.chat.reading import LineReader, pipe_lines, plain_lines
    from homespec.runtime.state import state_directory

    path: Path | None = state_directory() / "chat_history" if history else None
    if not terminal.is_interactive:
        return LineReader(pipe_lines(sys.stdin), offers=False)
    if terminal.is_plain:
        return LineReader(plain_lines(path), offers=True)
    from homespec.chat.editing import Editor
    from homespec.chat.suggesting import suggest

    return Editor(suggest, path, colours=not terminal.notes.no_color)
