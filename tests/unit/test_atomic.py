"""Files are replaced whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from homespec.errors import HomespecError
from homespec.runtime.atomic import replaced, write_atomically, written_whole


def fail_with(failure: type[BaseException], path: Path) -> None:
    with written_whole(path) as part:
        part.write_text("half")
        raise failure


def test_a_write_that_fails_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    for failure, seen in ((RuntimeError, RuntimeError), (OSError, HomespecError), (KeyboardInterrupt,) * 2):
        with pytest.raises(seen):
            fail_with(failure, path)
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_the_content_is_on_the_disk_before_it_has_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    synced: list[tuple[str, str]] = []

    def fsync(handle: int) -> None:
        what = "directory" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file"
        synced.append((what, path.read_text()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(path, "new")
    assert synced == [("file", "old"), ("directory", "new")]


def test_what_was_said_is_private_and_models_are_not(tmp_path: Path) -> None:
    write_atomically(tmp_path / "state", "text")
    with written_whole(tmp_path / "model") as part:
        part.write_text("text")
    (tmp_path / "usual").touch()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"state": 0o600, "model": modes["usual"], "usual": modes["usual"]}


def test_writers_at_the_same_time_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with contextlib.ExitStack() as stack:
        parts = [stack.enter_context(replaced(path)) for _ in range(3)]
        for part in parts:
            part.write_text(part.name)
    assert path.read_text() == parts[0].name  # the last to be finished
    texts = [str(number) * 10_000 for number in range(60)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda text: write_atomically(path, text), texts))
    assert path.read_text() in texts
    assert list(tmp_path.iterdir()) == [path]


_UNFINISHED = """
import sys, time
from pathlib import Path
from homespec.runtime.atomic import replaced
with replaced(Path(sys.argv[1])) as part:
    part.write_text("half")
    print(part.name, flush=True)
    time.sleep(60)
"""


def test_a_file_that_is_taken_for_remains_before_it_is_locked_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_flock, removed = fcntl.flock, list[Path]()

    def flock(handle: int, operation: int) -> None:
        if not removed:
            removed.extend(tmp_path.glob(".*.part"))
            removed[0].unlink()
        real_flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    write_atomically(tmp_path / "state", "text")
    assert removed
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o600


def test_what_a_killed_process_left_goes_with_the_next_write_and_not_before_it_is_dead(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", _UNFINISHED, str(tmp_path / "model")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        part = tmp_path / writer.stdout.readline().strip()
        try:
            write_atomically(tmp_path / "other", "text")
            assert part.read_text() == "half"
        finally:
            writer.kill()
    assert part.is_file()
    write_atomically(tmp_path / "other", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
