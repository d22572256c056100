"""Which numbers of threads are chosen, by made-up times, and what is kept of that."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from homespec.calibration.fingerprint import Fingerprint, fingerprint
from homespec.calibration.store import make_key
from homespec.calibration.thread_trial import compare_threads
from homespec.calibration.threads import (
    ThreadComparison,
    Threads,
    ThreadTimes,
    chosen_threads,
    load_comparison,
    store_comparison,
)
from homespec.contracts import Rows
from homespec.errors import DecodeAbortedError
from homespec.runtime.threads import choose_threads
from tests.support.table_model import Logits, TableModel

HERE = Fingerprint("0123456789abcdef" * 2, "llama 1, GCC", "A CPU", "8 of 12 cores")
# Eight are usual; four are better for one token, and six for several.
COMPARISON = ThreadComparison(
    (ThreadTimes(8, 0.112, 0.3), ThreadTimes(4, 0.1, 0.5), ThreadTimes(6, 0.11, 0.24))
)


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOMESPEC_STATE", str(tmp_path / "state"))


def test_each_kind_of_decode_has_its_own_choice() -> None:
    assert COMPARISON.choice == Threads(single=4, batch=6)
    assert COMPARISON.reason == (
        "measured: 4 threads are 12% faster than 8 for one token; "
        "6 threads are 25% faster than 8 for several tokens"
    )


@pytest.mark.parametrize(("seconds", "expected"), [(1.0, 4), (0.96, 4), (0.94, 3), (0.5, 3), (2.0, 4)])
def test_only_a_clear_gain_overrules_the_usual_choice(seconds: float, expected: int) -> None:
    comparison = ThreadComparison((ThreadTimes(4, 1.0, 1.0), ThreadTimes(3, seconds, 1.0)))
    assert comparison.choice == Threads(expected, 4)
    assert "no other number is clearly faster than 4 for several tokens" in comparison.reason


def test_round_trip() -> None:
    assert load_comparison(HERE) is None
    path = store_comparison(HERE, COMPARISON)
    assert load_comparison(HERE) == COMPARISON
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    for other in (
        replace(HERE, model="f" * 32),
        replace(HERE, build="llama 2"),
        replace(HERE, cpu="Another CPU"),
        replace(HERE, cpu_limits="4 cores"),
    ):
        assert load_comparison(other) is None


DAMAGED = [
    b"",
    b"\xff",
    b"[]",
    b"null",
    b'{"format": 99}',
    b'{"format": 1, "fingerprint": {}}',
    *(
        json.dumps(
            {
                "format": 1,
                "fingerprint": {
                    "model": HERE.model,
                    "build": HERE.build,
                    "cpu": HERE.cpu,
                    "cpu_limits": HERE.cpu_limits,
                },
                "times": times,
            }
        ).encode()
        for times in (
            None,
            [],
            [3],
            [{"num_threads": 0, "single_seconds": 1, "batch_seconds": 1}],
            [{"num_threads": 2, "single_seconds": 0, "batch_seconds": 1}],
            [{"num_threads": 2, "single_seconds": float("nan"), "batch_seconds": 1}],
            [{"num_threads": float("inf"), "single_seconds": 1, "batch_seconds": 1}],
        )
    ),
]


@pytest.mark.parametrize("content", DAMAGED)
def test_damaged_files_are_ignored(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = store_comparison(HERE, COMPARISON)
    path.write_bytes(content)
    with caplog.at_level(logging.DEBUG, logger="homespec"):
        assert load_comparison(HERE) is None
    assert path.name in caplog.text
    store_comparison(HERE, COMPARISON)
    assert load_comparison(HERE) == COMPARISON


@pytest.mark.parametrize(
    ("asked", "stored", "unmeasured"),
    [
        ((None, None), (4, 6), "usual"),
        ((None, 5), (4, 5), "usual single"),
        ((3, None), (3, 3), "asked"),
        ((3, 5), (3, 5), "asked"),
    ],
)
def test_what_was_asked_for_wins(
    asked: tuple[int | None, int | None], stored: tuple[int, int], unmeasured: str
) -> None:
    usual = choose_threads().num_threads
    expected = {"usual": (usual, usual), "usual single": (usual, 5), "asked": stored}
    assert chosen_threads(HERE, *asked) == expected[unmeasured]
    store_comparison(HERE, COMPARISON)
    assert chosen_threads(HERE, *asked) == stored


def test_keys_and_contexts_agree(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"weights")
    store_comparison(fingerprint(path), COMPARISON)
    for asked in ((None, None), (None, 5), (3, None)):
        key = make_key(
            path, num_threads=asked[0], num_batch_threads=asked[1], kv_type="f16", repack=True, mmap=True
        )
        assert (key.num_threads, key.num_batch_threads) == chosen_threads(fingerprint(path), *asked)


class ThreadedTable(TableModel):
    """A table model whose decodes move a clock by `cost(threads, width)`."""

    abort_after = 1 << 30

    def __init__(self, cost: Callable[[int, int], float]) -> None:
        super().__init__(np.zeros((9, 9, 8)), 16)
        self.cost = cost
        self.now = 0.0
        self.threads = (0, 0)
        self.num_trials: dict[int, int] = {}

    def set_threads(self, num_threads: int, num_batch_threads: int) -> None:
        self.threads = (num_threads, num_batch_threads)
        self.num_trials[num_threads] = self.num_trials.get(num_threads, 0) + 1

    def decode(self, tokens: Sequence[int], rows: Rows = "all") -> Logits:
        if self.num_decodes >= self.abort_after:
            raise DecodeAbortedError("The decode was stopped.")
        self.now += self.cost(self.threads[len(tokens) > 1], len(tokens))
        return super().decode(tokens, rows)


def compare(
    model: ThreadedTable, candidates: Sequence[int], budget_seconds: float = 100.0, max_samples: int = 5
) -> ThreadComparison | None:
    shares: list[float] = []
    found = compare_threads(
        model,
        candidates,
        budget_seconds=budget_seconds,
        max_samples=max_samples,
        progress=shares.append,
        clock=lambda: model.now,
    )
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)
    assert model.num_cached_tokens == 0
    return found


def test_candidates_are_compared() -> None:
    seconds = {(4, 1): 1.0, (4, 5): 2.0, (3, 1): 0.9, (3, 5): 2.5, (8, 1): 1.5, (8, 5): 1.4}
    model = ThreadedTable(lambda threads, width: seconds[threads, width])
    found = compare(model, (4, 3, 8), budget_seconds=1000.0)
    assert found is not None
    assert [times.num_threads for times in found.times] == [4, 3, 8]
    for times in found.times:
        assert times.single_seconds == pytest.approx(seconds[times.num_threads, 1])
        assert times.batch_seconds == pytest.approx(seconds[times.num_threads, 5])
    assert found.choice == Threads(3, 8)


def test_a_disturbed_round_does_not_decide() -> None:
    model = ThreadedTable(lambda threads, width: 1.0 if 20 < model.now < 24 else 0.5)
    found = compare(model, (4, 3), budget_seconds=1000.0)
    assert found is not None
    assert found.choice == Threads(4, 4)


@pytest.mark.parametrize(
    ("budget_seconds", "num_samples"), [(1.0, 0), (13.9, 0), (14.0, 2), (19.9, 2), (30.0, 4), (1000.0, 5)]
)
def test_the_budget_is_kept(budget_seconds: float, num_samples: int) -> None:
    model = ThreadedTable(lambda threads, width: 1.0)
    found = compare(model, (2, 1), budget_seconds)
    assert (found is None) == (num_samples == 0)
    assert model.num_trials.get(1, 0) == num_samples
    assert model.now <= max(2.0, budget_seconds)


def test_a_candidate_that_turns_out_slow_ends_the_comparison() -> None:
    model = ThreadedTable(lambda threads, width: 10.0 if threads == 8 else 1.0)
    assert compare(model, (4, 8), budget_seconds=20.0) is None
    assert model.num_trials[8] == 1


def test_an_abort_goes_through() -> None:
    model = ThreadedTable(lambda threads, width: 1.0)
    model.abort_after = 6
    with pytest.raises(DecodeAbortedError):
        compare(model, (4, 3))
    assert model.num_cached_tokens == 0
