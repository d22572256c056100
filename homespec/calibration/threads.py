"""Which numbers of threads are fastest: measured, chosen by a clear gain, and kept on disk.

Whoever opens a model, and whoever names what it costs, asks `chosen_threads`; so the two never disagree.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from homespec.calibration.fingerprint import Fingerprint
from homespec.runtime.atomic import write_atomically
from homespec.runtime.state import state_directory
from homespec.runtime.threads import choose_threads

_logger = logging.getLogger(__name__)
_FORMAT = 1
# Medians of a few decodes differ by some percent from one measurement to the next.
_CLEAR_GAIN = 1.05


class Threads(NamedTuple):
    """Numbers of threads for decodes of one token, and of several."""

    single: int
    batch: int


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """What a number of threads is worth.

    Attributes:
        num_threads: that many.
        single_seconds: of a decode of one token.
        batch_seconds: of a decode of five.
    """

    num_threads: int
    single_seconds: float
    batch_seconds: float


@dataclass(frozen=True, slots=True)
class ThreadComparison:
    """What was measured, and what follows from it.

    Attributes:
        times: of each candidate; the first is the usual choice, which only a clear gain overrules.
    """

    times: tuple[ThreadTimes, ...]

    @property
    def choice(self) -> Threads:
        """The fastest where they gain at least 5%, otherwise the usual ones."""
        return Threads(self._best(_single)[0], self._best(_batch)[0])

    @property
    def reason(self) -> str:
        """For people, such as `measured: 4 threads are 12% faster than 8 for one token; ...`."""
        kinds = ((_single, "one token"), (_batch, "several tokens"))
        return "measured: " + "; ".join(f"{self._why(seconds)} for {what}" for seconds, what in kinds)

    def _best(self, seconds: Callable[[ThreadTimes], float]) -> tuple[int, float]:
        """The number of threads to take for a kind of decode, and its speed relative to the usual one's."""
        usual = self.times[0]
        fastest = min(self.times, key=seconds)
        gain = seconds(usual) / seconds(fastest)
        return (fastest.num_threads, gain) if gain >= _CLEAR_GAIN else (usual.num_threads, 1.0)

    def _why(self, seconds: Callable[[ThreadTimes], float]) -> str:
        usual = self.times[0].num_threads
        best, gain = self._best(seconds)
        if best == usual:
            return f"no other number is clearly faster than {usual}"
        return f"{best} {'thread is' if best == 1 else 'threads are'} {gain - 1:.0%} faster than {usual}"

    def to_json(self) -> dict[str, Any]:
        """Plain data, for `from_json`; the choice and the reason are for people."""
        return {
            "num_threads": self.choice.single,
            "num_batch_threads": self.choice.batch,
            "reason": self.reason,
            "times": [asdict(times) for times in self.times],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ThreadComparison:
        """The inverse of `to_json`.

        Raises:
            ValueError, KeyError, TypeError, OverflowError: it is something else.
        """
        times = tuple(
            ThreadTimes(
                num_threads=int(entry["num_threads"]),
                single_seconds=float(entry["single_seconds"]),
                batch_seconds=float(entry["batch_seconds"]),
            )
            for entry in data["times"]
        )
        if not times or not all(value > 0 for entry in times for value in astuple(entry)):
            raise ValueError("no times, or impossible ones")
        return cls(times)


def _single(times: ThreadTimes) -> float:
    return times.single_seconds


def _batch(times: ThreadTimes) -> float:
    return times.batch_seconds


def chosen_threads(here: Fingerprint, num_threads: int | None, num_batch_threads: int | None) -> Threads:
    """How many threads a model runs on: what was asked for, or what was measured, or the usual choice.

    Args:
        here: the model on this machine.
        num_threads: as in the settings, for decodes of one token.
        num_batch_threads: as in the settings, for decodes of several; None for what was measured, or for the
            same as `num_threads` where that is given.
    """
    if num_threads is not None:
        return Threads(num_threads, num_batch_threads or num_threads)
    comparison = load_comparison(here)
    if comparison is None:
        usual = choose_threads().num_threads
        return Threads(usual, num_batch_threads or usual)
    return Threads(comparison.choice.single, num_batch_threads or comparison.choice.batch)


def load_comparison(here: Fingerprint) -> ThreadComparison | None:
    """What is stored for a model on this machine; None when nothing is, or nothing that can be read."""
    path = _path(here)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != _FORMAT or data["fingerprint"] != asdict(here):
            raise ValueError("another format or fingerprint")
        return ThreadComparison.from_json(data)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        # It is a cache of measurements: the next calibration writes it anew.
        _logger.debug("%s is ignored: %s: %s", path, type(error).__name__, error)
        return None


def store_comparison(here: Fingerprint, comparison: ThreadComparison) -> Path:
    """Makes a comparison the one that `chosen_threads` goes by.

    Raises:
        OSError: the state directory cannot be written.
    """
    path = _path(here)
    data = {"format": _FORMAT, "fingerprint": asdict(here), **comparison.to_json()}
    write_atomically(path, json.dumps(data, indent=1))
    return path


def _path(here: Fingerprint) -> Path:
    digest = hashlib.sha256(json.dumps(asdict(here), sort_keys=True).encode()).hexdigest()
    return state_directory() / "threads" / f"{here.model[:16]}-{digest[:16]}.json"
