"""The line editor on terminals, by prompt_toolkit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import is_searching
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.defaults import create_output

from homespec.chat.reading import is_open

# Given the text before the cursor: what may stand in the place of its last word, as pairs of a text and an
# explanation; None for paths.
Suggest = Callable[[str], list[tuple[str, str]] | None]


class SuggestCompleter(Completer):
    """Completes the last word of commands, and paths behind `@`."""

    def __init__(self, suggest: Suggest) -> None:
        self._suggest = suggest
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """See `Completer`."""
        text = document.text_before_cursor
        word = text.split(" ")[-1].rpartition("\n")[2]
        suggestions = self._suggest(text)
        if suggestions is None:
            path = word.removeprefix("@").removeprefix('"')
            yield from self._paths.get_completions(Document(path), complete_event)
            return
        for name, explanation in suggestions:
            if name.startswith(word):
                yield Completion(name, -len(word), display_meta=explanation)


class Editor:
    """Implements `reading.Reader`: several lines, history with search (Ctrl-R), completion."""

    def __init__(self, suggest: Suggest, history: Path | None, *, colours: bool) -> None:
        """Prepares.

        Args:
            suggest: for completion.
            history: file of earlier lines; None keeps none beyond the session.
            colours: whether to use any.
        """
        self._session: PromptSession[str] = PromptSession(
            history=_history(history),
            completer=SuggestCompleter(suggest),
            complete_while_typing=True,
            multiline=True,
            key_bindings=_key_bindings(),
            prompt_continuation=lambda width, number, wrapped: "" if wrapped else "... ".rjust(width)[:width],
            color_depth=None if colours else ColorDepth.DEPTH_1_BIT,
            # Standard error where standard output is a pipe: that is for replies alone.
            output=create_output(always_prefer_tty=True),
            reserve_space_for_menu=4,
            enable_open_in_editor=True,
            tempfile_suffix=".md",
        )

    def read(self, prompt: str, default: str = "") -> str:
        """See `Reader`."""
        meter, arrow = prompt[:-2], prompt[-2:]
        return self._session.prompt(
            FormattedText([("ansibrightblack", meter), ("bold", arrow)]), default=default
        )


def _history(path: Path | None) -> History:
    if path is None:
        return InMemoryHistory()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        return FileHistory(str(path))
    return InMemoryHistory()


def _key_bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif is_open(buffer.text):
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @bindings.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("c-c", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.text:
            buffer.reset(append_to_history=False)
        else:
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    return bindings
