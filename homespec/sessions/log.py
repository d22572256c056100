"""The log of a conversation: JSON lines that are only ever appended.

A line is on the disk (fsync) before its event counts as recorded, so a crash or a power cut loses at most
the reply that is being made. What it leaves behind is a last line without its end; readers leave that out,
and the next writer cuts it off before it appends.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from homespec.errors import SessionBusyError, SessionError, SessionFormatError, SessionNotFoundError
from homespec.runtime.atomic import sync
from homespec.runtime.state import state_directory
from homespec.sessions.conversation import Conversation, apply, begin
from homespec.sessions.events import FORMAT, Event, Json, Start, from_json, to_json

SUFFIX = ".jsonl"
# Some network file systems know no locks; a conversation there is as safe as its user is careful.
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


def sessions_directory() -> Path:
    """Where conversations lie; it need not exist."""
    return state_directory() / "sessions"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a log says.

    Attributes:
        conversation: its state.
        notices: sentences about what could not be used.
        num_whole_bytes: of its whole lines; what follows was being written when something broke off.
    """

    conversation: Conversation
    notices: tuple[str, ...]
    num_whole_bytes: int


def read(path: Path) -> Reading:
    """Replays a log. It may be open elsewhere.

    Raises:
        SessionNotFoundError: there is no such file.
        SessionFormatError: it is no log of a conversation, or one of a newer homespec.
        SessionError: it cannot be read.
    """
    try:
        return parse(path.read_bytes(), path.name)
    except OSError as error:
        raise _cannot_open(path, error) from error


def parse(content: bytes, name: str) -> Reading:
    """Replays the content of a log. Lines that cannot be used are left out.

    Args:
        content: of the file, possibly damaged.
        name: of the file, for messages.

    Raises:
        SessionFormatError: its first line does not begin a conversation.
    """
    whole, _, torn = content.rpartition(b"\n")
    first, *others = whole.split(b"\n")
    conversation = begin(parse_start(first, name))
    notices: list[str] = []
    for number, line in enumerate(others, start=2):
        try:
            conversation = apply(conversation, from_json(json.loads(line)))
        except (ValueError, RecursionError):
            notices.append(f"Line {number} of {name} is damaged and was left out.")
    if torn:
        notices.append(f"The last line of {name} is torn: what was being written when it broke off is lost.")
    return Reading(conversation, tuple(notices), len(content) - len(torn))


def parse_start(line: bytes, name: str) -> Start:
    """The first line of a log.

    Args:
        line: without its line break.
        name: of the file, for messages.

    Raises:
        SessionFormatError: it does not begin a conversation, or one of a newer homespec.
    """
    try:
        data = json.loads(line)
        start, version = from_json(data), int(data["format"])
    except (ValueError, KeyError, TypeError, RecursionError):
        start, version = None, FORMAT
    if version > FORMAT:
        raise SessionFormatError(
            f"{name} was written by a newer homespec (format {version}; this one knows {FORMAT}).",
            hint="Update homespec.",
        )
    if not isinstance(start, Start):
        raise SessionFormatError(f"{name} is not a conversation of homespec.", hint="Move the file away.")
    return start


class SessionLog:
    """A conversation that goes on: its state, and the file that follows it.

    Nobody else can open it for writing meanwhile. A disk that refuses does not stop the conversation: it goes
    on in memory, and every later event tries to write what is missing as well.
    """

    def __init__(self, path: Path, conversation: Conversation, notices: tuple[str, ...] = ()) -> None:
        """Called by `create` and `open`."""
        self.path = path
        self.conversation = conversation
        self.notices = notices
        self._descriptor = -1
        self._num_bytes = 0
        self._unsaved: list[bytes] = []
        self._refused = False

    @classmethod
    def create(
        cls,
        model: str,
        system: str | None = None,
        settings: Mapping[str, Json] | None = None,
        directory: Path | None = None,
    ) -> SessionLog:
        """A new conversation. There is no file before the user says something.

        Args:
            model: who answers.
            system: the system message.
            settings: see `events.Start`.
            directory: where the file goes; None for `sessions_directory`.
        """
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        start = Start(name, time.time(), model, system, dict(settings or {}))
        path = (sessions_directory() if directory is None else directory) / f"{name}{SUFFIX}"
        log = cls(path, begin(start))
        log._unsaved.append(_line(start))
        return log

    @classmethod
    def open(cls, path: Path) -> SessionLog:
        """Goes on with a conversation; `notices` tells what was damaged.

        Raises:
            SessionNotFoundError, SessionFormatError, SessionError: see `read`.
            SessionBusyError: another process has it open.
        """
        descriptor = open_locked(path)
        try:
            reading = read(path)
        except BaseException:
            os.close(descriptor)
            raise
        log = cls(path, reading.conversation, reading.notices)
        log._descriptor, log._num_bytes = descriptor, reading.num_whole_bytes
        return log

    @property
    def num_unsaved(self) -> int:
        """How many events are in memory alone."""
        return len(self._unsaved)

    def append(self, event: Event) -> str | None:
        """Applies an event, and records it.

        Returns:
            A sentence when the disk begins to refuse; None when all is well, or was told before.

        Raises:
            ValueError: the event cannot happen now, see `conversation.apply`.
        """
        self.conversation = apply(self.conversation, event)
        self._unsaved.append(_line(event))
        if self._descriptor < 0 and not self.conversation.turns:
            return None
        try:
            self._write()
        except OSError as error:
            told, self._refused = self._refused, True
            return (
                None
                if told
                else (
                    f"The conversation cannot be saved in {self.path.parent} ({error.strerror}): "
                    "it goes on in memory, and each message tries again."
                )
            )
        self._refused = False
        return None

    def _write(self) -> None:
        if self._descriptor < 0:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = open_locked(self.path, create=True)
            sync(self.path.parent)
        # Cuts off what a crash or a full disk left of an earlier line.
        os.ftruncate(self._descriptor, self._num_bytes)
        os.lseek(self._descriptor, self._num_bytes, os.SEEK_SET)
        content = rest = memoryview(b"".join(self._unsaved))
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        os.fsync(self._descriptor)
        self._num_bytes += len(content)
        self._unsaved.clear()

    def close(self) -> None:
        """Lets others open it; safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> SessionLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_locked(path: Path, *, create: bool = False) -> int:
    """Opens a log for its only writer.

    Args:
        path: of the log.
        create: it must not be there yet.

    Returns:
        A file descriptor; closing it gives the lock back, and so does the end of the process.

    Raises:
        SessionBusyError: somebody has it open.
        SessionNotFoundError, SessionError: it cannot be opened (OSError where it is to be created).
    """
    try:
        descriptor = os.open(path, os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0), 0o600)
    except OSError as error:
        if create:
            raise
        raise _cannot_open(path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise SessionBusyError(
            f"The conversation {path.stem} is open in another chat.",
            hint="Leave that one first, or begin a new conversation.",
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            os.close(descriptor)
            raise _cannot_open(path, error) from error
    if os.fstat(descriptor).st_nlink == 0:  # removed between the two calls
        os.close(descriptor)
        raise _cannot_open(path, FileNotFoundError())
    return descriptor


def _cannot_open(path: Path, error: OSError) -> SessionError:
    if isinstance(error, FileNotFoundError):
        hint = "See `homespec sessions list`."
        return SessionNotFoundError(f"There is no conversation {path.stem}.", hint=hint)
    return SessionError(f"{path} cannot be opened: {error.strerror}.")


def _line(event: Event) -> bytes:
    data = {"at": round(time.time(), 3), **to_json(event)}
    # Unpaired surrogates (bytes that a terminal could not decode) have no UTF-8; JSON can escape them.
    return json.dumps(data, separators=(",", ":")).encode() + b"\n"
