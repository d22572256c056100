"""All conversations on this machine."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from homespec.errors import SessionError, SessionNotFoundError
from homespec.sessions.conversation import title_of
from homespec.sessions.events import TitleChange, UserTurn, from_json
from homespec.sessions.kv_files import KvFiles
from homespec.sessions.log import SUFFIX, open_locked, parse_start, sessions_directory

LATEST = "latest"


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """What a list shows of a conversation.

    Attributes:
        id: names it.
        path: of its log.
        created_at, updated_at: seconds since 1970.
        model: that it began with.
        title: its name, or the beginning of its first message.
        num_bytes: of its log.
    """

    id: str
    path: Path
    created_at: float
    updated_at: float
    model: str
    title: str
    num_bytes: int


def list_sessions(directory: Path | None = None) -> list[SessionInfo]:
    """Every conversation that can be read, the latest first. Replays none of them.

    Args:
        directory: None for `sessions_directory`.
    """
    found = []
    for path in (sessions_directory() if directory is None else directory).glob(f"*{SUFFIX}"):
        with contextlib.suppress(OSError, SessionError):
            found.append(_info(path))
    return sorted(found, key=lambda info: info.updated_at, reverse=True)


def find_session(name: str, directory: Path | None = None) -> SessionInfo:
    """A conversation by its id, the beginning of it, its title, or `latest`.

    Args:
        name: see above.
        directory: None for `sessions_directory`.

    Raises:
        SessionNotFoundError: there is none, or more than one.
    """
    known = list_sessions(directory)
    if name == LATEST:
        fitting = known[:1]
    else:
        fitting = [info for info in known if name in (info.id, info.title)]
        fitting = fitting or [info for info in known if name and info.id.startswith(name)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise SessionNotFoundError(
            f"{len(fitting)} conversations are called {name}: {', '.join(info.id for info in fitting)}.",
            hint="Name one by its id.",
        )
    if name == LATEST:
        raise SessionNotFoundError("There is no conversation yet.", hint="Begin one: homespec chat")
    raise SessionNotFoundError(f"There is no conversation {name}.", hint="See `homespec sessions list`.")


def remove_session(info: SessionInfo) -> None:
    """Removes a conversation and its KV cache.

    Raises:
        SessionBusyError: it is open.
        SessionError: it cannot be removed.
    """
    descriptor = open_locked(info.path)
    try:
        info.path.unlink()
    except OSError as error:
        raise SessionError(f"{info.path} cannot be removed: {error.strerror}.") from error
    finally:
        os.close(descriptor)
    KvFiles().remove(info.id)


def _info(path: Path) -> SessionInfo:
    content, status = path.read_bytes(), path.stat()
    start = parse_start(content.partition(b"\n")[0], path.name)
    return SessionInfo(
        id=path.stem,
        path=path,
        created_at=start.created_at,
        updated_at=status.st_mtime,
        model=start.model,
        title=_title(content),
        num_bytes=status.st_size,
    )


def _title(content: bytes) -> str:
    """The name that was given last, or what the first message makes it; the same as a replay's."""
    # Quotes in texts are escaped in JSON, so these bytes can be nothing but the event's kind.
    given, first = content.rfind(b'"event":"title"'), content.find(b'"event":"user"')
    found = given if given >= 0 else first
    if found < 0:
        return ""
    line = content[content.rfind(b"\n", 0, found) + 1 :].partition(b"\n")[0]
    try:
        event = from_json(json.loads(line))
    except ValueError:
        return ""
    return (
        event.title
        if isinstance(event, TitleChange)
        else title_of(event)
        if isinstance(event, UserTurn)
        else ""
    )
