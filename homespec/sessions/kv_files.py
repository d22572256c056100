"""The directory of KV caches that were kept on disk, and how much of the disk they take."""

from __future__ import annotations

import contextlib
import glob
import os
from pathlib import Path

from homespec.runtime.state import cache_directory

DEFAULT_LIMIT_BYTES = 2 << 30
_SUFFIX = ".kv"


class KvFiles:
    """One file for each conversation and model; the one that was used longest ago goes first."""

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES, directory: Path | None = None) -> None:
        """Looks at nothing yet.

        Args:
            limit_bytes: the most that all files together may take.
            directory: None for homespec's directory in the XDG cache home, or below `HOMESPEC_STATE`.
        """
        self.limit_bytes = limit_bytes
        self.directory = cache_directory() / "kv" if directory is None else directory

    def path(self, session_id: str, role: str = "target") -> Path:
        """Where the cache of a conversation is kept.

        Args:
            session_id: of the conversation.
            role: `target`, or `draft` for the draft model's.
        """
        return self.directory / f"{session_id}.{role}{_SUFFIX}"

    @property
    def num_bytes(self) -> int:
        """What all files take."""
        return sum(num_bytes for _, num_bytes, _ in self._all())

    def make_room(self, num_bytes: int, session_id: str) -> bool:
        """Removes files until those of a conversation have room.

        Args:
            num_bytes: of all that will be kept of the conversation.
            session_id: of the conversation; what is kept of it now will be replaced, and does not count.

        Returns:
            False where it is larger than the limit by itself; nothing is removed then.
        """
        if num_bytes > self.limit_bytes:
            return False
        own = set(self._paths(session_id))
        others = sorted(known for known in self._all() if known[2] not in own)
        total = sum(size for _, size, _ in others)
        for _, size, path in others:
            if total + num_bytes <= self.limit_bytes:
                break
            self.discard(path)
            total -= size
        return True

    def touch(self, path: Path) -> None:
        """Remembers that a file was used just now."""
        with contextlib.suppress(OSError):
            os.utime(path)

    def discard(self, path: Path) -> None:
        """Removes a file."""
        with contextlib.suppress(OSError):
            path.unlink()

    def remove(self, session_id: str) -> None:
        """Removes what was kept of a conversation."""
        for path in self._paths(session_id):
            self.discard(path)

    def _paths(self, session_id: str) -> list[Path]:
        return list(self.directory.glob(f"{glob.escape(session_id)}.*{_SUFFIX}"))

    def _all(self) -> list[tuple[float, int, Path]]:
        """Time of last use, size and path of every file."""
        found = []
        for path in self.directory.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        return found
