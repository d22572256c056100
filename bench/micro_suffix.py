"""Microseconds of the lookup drafter per appended token and per proposal, and bytes of its index.

    python bench/micro_suffix.py

The history is this repository's source, byte by byte: few different tokens and many repetitions, which is
the hard case (every short suffix has more occurrences than are looked at). Each figure is the best of
several repeats: what the code costs when nothing else runs. The suffix index has a fixed part of
`HISTORY_FIXED_BYTES`, which is why its bytes per token fall with the length.
"""

from __future__ import annotations

import sys
import timeit
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import homespec
from homespec.contracts import Drafter
from homespec.drafting.suffix import SuffixDrafter, index_corpus

HISTORY_TOKENS = (1_000, 8_000, 32_000)
DRAFT_TOKENS = 8
NUM_APPENDED = 50


def source_tokens(num_tokens: int) -> list[int]:
    """Bytes of this package's modules."""
    text = b"".join(path.read_bytes() for path in sorted(Path(homespec.__file__).parent.rglob("*.py")))
    return list(text[:num_tokens])


def ask(drafter: Drafter, tokens: list[int]) -> None:
    """Proposes with no limit but the length."""
    drafter.propose(tokens, DRAFT_TOKENS, lambda _confidence: True)


def proposal_microseconds(make: Callable[[], Drafter], tokens: list[int]) -> float:
    """Of a proposal after a single new token, its indexing included, as plain decoding has it."""
    best = float("inf")
    for _ in range(5):
        drafter, history = make(), tokens[:-NUM_APPENDED]
        ask(drafter, history)
        start = timeit.default_timer()
        for token in tokens[-NUM_APPENDED:]:
            history.append(token)
            ask(drafter, history)
        best = min(best, (timeit.default_timer() - start) / NUM_APPENDED)
    return best * 1e6


def append_microseconds(make: Callable[[], Drafter], tokens: list[int]) -> float:
    """Per token of a prompt, read at once by a fresh drafter."""
    return min(timeit.repeat(lambda: ask(make(), tokens), number=1, repeat=5)) / len(tokens) * 1e6


def traced_bytes(make: Callable[[], object]) -> int:
    """What is left allocated."""
    tracemalloc.start()
    kept = make()
    num_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return num_bytes


def indexed(make: Callable[[], Drafter], tokens: list[int]) -> Drafter:
    """A drafter that has read tokens."""
    drafter = make()
    ask(drafter, tokens)
    return drafter


def row(name: str, make: Callable[[], Drafter], num_tokens: int) -> str:
    """The figures of one drafter at one length of the history."""
    tokens = source_tokens(num_tokens)
    num_bytes = traced_bytes(lambda: indexed(make, tokens))
    return (
        f"{name:9}{num_tokens:9}{append_microseconds(make, tokens):11.2f}"
        f"{proposal_microseconds(make, tokens):12.1f}{num_bytes / num_tokens:13.1f}\n"
    )


def main() -> None:
    """Prints a line for each history and drafter, and what a corpus costs."""
    sys.stdout.write(f"{'drafter':9}{'history':>9}{'append us':>11}{'propose us':>12}{'bytes/token':>13}\n")
    for num_tokens in HISTORY_TOKENS:
        sys.stdout.write(row("suffix", SuffixDrafter, num_tokens))
    tokens = source_tokens(HISTORY_TOKENS[-1])
    num_bytes = traced_bytes(lambda: index_corpus([tokens]))
    seconds = min(timeit.repeat(lambda: index_corpus([tokens]), number=1, repeat=3))
    sys.stdout.write(
        f"corpus: {seconds / len(tokens) * 1e6:.2f} us and {num_bytes / len(tokens):.1f} bytes per token\n"
    )


if __name__ == "__main__":
    main()
