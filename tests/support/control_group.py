"""A memory control group with a real limit, where this machine lets the test make one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

_ROOT = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def memory_limit(limit_bytes: int) -> Iterator[Path]:
    """Makes a group with this limit (version 1 or 2); skips the test where that is not allowed."""
    version_1 = (_ROOT / "memory").is_dir()
    group = (_ROOT / "memory" if version_1 else _ROOT) / f"homespec-test-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        try:
            limit = group / ("memory.limit_in_bytes" if version_1 else "memory.max")
            limit.write_text(str(limit_bytes))
        except OSError as error:
            pytest.skip(f"no memory limit can be set here: {error}")
        yield group
    finally:
        group.rmdir()


def run_in(group: Path, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command whose memory is charged to the group from its first page on."""
    enter = (
        "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid())); os.execv(sys.argv[2], sys.argv[2:])"
    )
    return subprocess.run(
        [sys.executable, "-c", enter, str(group / "cgroup.procs"), *command],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "HOMESPEC_STATE": str(Path("/nonexistent/homespec"))},
    )
