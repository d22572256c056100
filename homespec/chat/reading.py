"""Where the user's lines come from: a terminal, a plain one, or a pipe."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol, TextIO

from homespec.errors import ConfigError

QUOTES = '"""'


class Reader(Protocol):
    """Reads what the user says."""

    def read(self, prompt: str, default: str = "") -> str:
        """The next message or command, possibly of several lines.

        Args:
            prompt: shown before it.
            default: to begin with, where it can be edited.

        Raises:
            EOFError: there is no more (Ctrl-D).
            KeyboardInterrupt: Ctrl-C on an empty line.
        """


def is_open(text: str) -> bool:
    """Whether a text that began with three quotation marks lacks its end."""
    return text.lstrip().startswith(QUOTES) and text.count(QUOTES) == 1


def unquoted(text: str) -> str:
    """A message without the quotation marks around it."""
    stripped = text.strip()
    if stripped.startswith(QUOTES):
        return stripped.removeprefix(QUOTES).removesuffix(QUOTES).strip("\n")
    return text


class LineReader:
    """Reads whole lines: from a pipe, or with `input` (and readline) on plain terminals."""

    def __init__(self, next_line: Callable[[str], str], *, offers: bool) -> None:
        """Prepares.

        Args:
            next_line: given a prompt, the next line without its line break; raises EOFError.
            offers: an empty line takes the default.
        """
        self._next_line = next_line
        self._offers = offers

    def read(self, prompt: str, default: str = "") -> str:
        """See `Reader`."""
        if default and self._offers:
            prompt = f"(Enter alone sends: {' '.join(default.split())[:60]})\n{prompt}"
        text = self._next_line(prompt)
        if self._offers and not text:
            return default
        with contextlib.suppress(EOFError):
            while is_open(text):
                text += "\n" + self._next_line("... ")
        return text


def pipe_lines(file: TextIO) -> Callable[[str], str]:
    """Lines of a file that is no terminal; nobody sees prompts."""

    def next_line(_prompt: str) -> str:
        line = file.readline()
        if not line:
            raise EOFError
        return line.removesuffix("\n")

    return next_line


def plain_lines(history: Path | None) -> Callable[[str], str]:
    """Lines of a plain terminal, with readline where Python has it."""
    with contextlib.suppress(ImportError):
        import atexit
        import readline

        if history is not None:
            with contextlib.suppress(OSError):
                readline.read_history_file(history)
            atexit.register(_write_history, history)
    # Where standard output is a pipe, `input` would put the prompt into it.
    return input if sys.stdout.isatty() else _input_beside


def _write_history(path: Path) -> None:
    import readline

    with contextlib.suppress(OSError):
        readline.write_history_file(path)


def _input_beside(prompt: str) -> str:
    sys.stderr.write(prompt)
    sys.stderr.flush()
    return pipe_lines(sys.stdin)("")


def edited(text: str, environment: Mapping[str, str]) -> str:
    """A text as the user's editor leaves it.

    Args:
        text: to begin with.
        environment: `VISUAL` or `EDITOR` names the editor.

    Raises:
        ConfigError: it cannot be started, or failed.
    """
    editor = environment.get("VISUAL") or environment.get("EDITOR") or "vi"
    with _temporary_file(text) as path:
        # Ctrl-C belongs to the editor now. (An ignored signal would be ignored by the editor as well.)
        previous = signal.signal(signal.SIGINT, lambda number, frame: None)
        try:
            done = subprocess.run([*shlex.split(editor), str(path)], check=False)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"The editor {editor!r} cannot be started: {error}.", hint="Set EDITOR, for example to nano."
            ) from None
        finally:
            signal.signal(signal.SIGINT, previous)
        if done.returncode:
            raise ConfigError(f"The editor {editor!r} failed with exit code {done.returncode}.")
        return path.read_text(encoding="utf-8", errors="replace").rstrip("\n")


@contextlib.contextmanager
def _temporary_file(text: str) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(prefix="homespec-", suffix=".md")
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        yield path
    finally:
        path.unlink(missing_ok=True)
