"""The state of the machine: whether it is fit to be measured on, and what it was like during a reply."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from homespec.errors import ResourceError
from homespec.runtime.residency import resident_bytes
from homespec.runtime.state import STATE_VARIABLE, state_directory
from homespec.telemetry.energy import EnergyCounter, joules_between, read_energy
from homespec.telemetry.machine import is_busy, read_cpu_times
from homespec.telemetry.thermal import read_temperatures, read_throttling, was_throttled
from homespec.units import format_bytes

# The load average remembers what ended a minute ago; programs that keep less than this share of the CPUs
# busy now are none to wait for.
_QUIET_SHARE = 0.1
_LOOK_SECONDS = 3.0
# Directories of the state that tell about the machine and its files, not about texts.
_MEASURED = ("calibration", "threads", "digests")
# Pages of a file's end that no tensor needs may be missing, and a few may come back by themselves.
_LEAST_WARM_SHARE, _MOST_COLD_SHARE = 0.95, 0.05


def refuse_load() -> None:
    """Looks whether other programs would be measured as well; takes seconds where they were at work lately.

    Raises:
        ResourceError: they would.
    """
    if not is_busy():
        return
    busy, total = read_cpu_times()
    time.sleep(_LOOK_SECONDS)
    later_busy, later_total = read_cpu_times()
    share = (later_busy - busy) / max(1, later_total - total)
    if share > _QUIET_SHARE:
        raise ResourceError(
            f"Other programs keep {share:.0%} of the CPUs busy (load {os.getloadavg()[0]:.1f} on "
            f"{os.cpu_count()} CPUs): what they take would be charged to whichever arm is running.",
            hint="Wait until they are done, or pass --anyway.",
        )


def resident_share(paths: Sequence[Path]) -> float | None:
    """How much of some files the page cache holds; None where the system does not tell."""
    sizes = [resident_bytes(path) for path in paths]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return None
    return sum(known) / max(1, sum(path.stat().st_size for path in paths))


def refuse_cold_files(paths: Sequence[Path]) -> None:
    """Looks whether the files are in memory, so that no arm finds them colder than another.

    Raises:
        ResourceError: they are not.
    """
    share = resident_share(paths)
    if share is not None and share < _LEAST_WARM_SHARE:
        size = format_bytes(sum(path.stat().st_size for path in paths))
        raise ResourceError(
            f"Only {share:.0%} of the model files ({size}) are in memory: replies would read the rest from "
            "disk, some arms more of it than others.",
            hint="Close other programs, measure cold starts with --cold, or pass --anyway.",
        )


def drop_from_cache(paths: Sequence[Path]) -> None:
    """Takes files out of the page cache (posix_fadvise), where nobody has them mapped.

    Raises:
        ResourceError: they are still there.
    """
    for path in paths:
        with path.open("rb") as file:
            # What is not on disk yet cannot be dropped.
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    share = resident_share(paths)
    if share is None or share > _MOST_COLD_SHARE:
        names = ", ".join(path.name for path in paths)
        found = "nobody can tell what" if share is None else f"{share:.0%}"
        raise ResourceError(
            f"--cold is not possible here: of {names} {found} stays in memory when it is dropped, since "
            "another program uses it, or by the nature of the file system.",
            hint="Leave out --cold, or copy the model to a disk of its own file system.",
        )


@dataclass(frozen=True, slots=True)
class Moment:
    """What the sensors show, for the record of a reply."""

    load: float
    temperature_celsius: float | None
    throttling: str | None
    energy: Mapping[str, EnergyCounter]

    @classmethod
    def now(cls, root: Path = Path("/")) -> Moment:
        """Reads them."""
        return cls(
            load=os.getloadavg()[0],
            temperature_celsius=max(read_temperatures(root).values(), default=None),
            throttling=read_throttling(root),
            energy=read_energy(root),
        )

    def joules_until(self, later: Moment) -> float | None:
        """What the processor took; None where that cannot be read."""
        return joules_between(self.energy, later.energy)

    def throttled_until(self, later: Moment) -> bool | None:
        """Whether the CPU was held back; None where that cannot be read."""
        return was_throttled(self.throttling, later.throttling)


@contextlib.contextmanager
def experience(*, fresh: bool) -> Iterator[None]:
    """Fresh, engines opened inside know nothing of what earlier runs learned of drafters, and keep nothing.

    What was measured, and what is measured inside, stays.
    """
    if not fresh:
        yield
        return
    known = state_directory()
    for name in _MEASURED:
        (known / name).mkdir(parents=True, exist_ok=True)
    named = os.environ.get(STATE_VARIABLE)
    with tempfile.TemporaryDirectory() as directory:
        for entry in known.glob("*"):
            if entry.name != "experience":
                Path(directory, entry.name).symlink_to(entry.resolve())
        os.environ[STATE_VARIABLE] = directory
        try:
            yield
        finally:
            os.environ.pop(STATE_VARIABLE)
            if named is not None:
                os.environ[STATE_VARIABLE] = named
