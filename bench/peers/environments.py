"""Virtual environments for peers that are packages: made when first needed, kept in the cache directory."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import platformdirs

from bench.peers.arms import Program

_STAMP = "complete"


class InstallError(Exception):
    """A package could not be installed."""


def cache_directory() -> Path:
    """Where the environments lie."""
    return platformdirs.user_cache_path("homespec") / "peers"


def interpreter(program: Program, directory: Path | None = None) -> Path:
    """The Python that a program's workers run on; its environment is made if it is not there.

    Args:
        program: whose.
        directory: for environments; None for `cache_directory`.

    Raises:
        InstallError: the package could not be installed.
    """
    if program.requirement is None:
        return Path(sys.executable)
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    home = (directory or cache_directory()) / f"{program.requirement.replace('==', '-')}-{version}"
    python = home / "bin" / "python"
    if not (home / _STAMP).is_file():
        # What an interrupted run left behind is not trusted.
        shutil.rmtree(home, ignore_errors=True)
        sys.stderr.write(f"Installing {program.requirement} into {home}.\n")
        _run([sys.executable, "-m", "venv", str(home)], program.requirement)
        pip = [str(python), "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
        _run([*pip, "--only-binary=:all:", program.requirement], program.requirement)
        (home / _STAMP).touch()
    return python


def _run(command: list[str], requirement: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        lines = done.stdout.strip().splitlines() or ["no reason given"]
        reason = next((line for line in reversed(lines) if "ERROR" in line), lines[-1])
        raise InstallError(f"{requirement} could not be installed: {reason}")
