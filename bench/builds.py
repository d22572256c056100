"""Is another build of llama.cpp faster? Decode times by width with two or more builds, interleaved.

    .venv/bin/python bench/builds.py VARIANT VARIANT ... --model TARGET [--model DRAFT] [--rounds 4]

A variant is a virtual environment in which homespec is installed, or a directory with libllama.so and what it
needs, which this interpreter loads instead of its own. For example, with clang:

    CC=clang-16 CXX=clang++-16 CMAKE_ARGS=-DLLAVA_BUILD=OFF pip install --no-cache-dir --editable .

Each round opens every model once with each variant, in turns, in a process of its own (two builds cannot live
in one), and takes the lower median of a few decodes by width. Printed are, by width, the medians over the
rounds and their ratio to the first variant's, with the smallest and largest ratio of a round; then how many
tokens a decode yields, at best, in the time of a plain one: the variant's own, and the first one's. Only the
latter compares variants, since a build that slows plain decoding down makes drafts look good.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)
DEPTH_TOKENS, SAMPLES = 64, 3
# Where llama-cpp-python looks for libllama instead of its own directory.
LIBRARY_VARIABLE = "LLAMA_CPP_LIB_PATH"
Times = dict[int, list[float]]
"""Width -> seconds in each round."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A build of llama.cpp.

    Attributes:
        python: the interpreter to measure with.
        libraries: the directory of the shared libraries; None for the interpreter's own.
    """

    python: Path
    libraries: Path | None = None

    def call(self, function: str, *arguments: str) -> str:
        """What a function of this very file prints when the variant's Python calls it."""
        file = str(Path(__file__).resolve())
        code = f"import sys, runpy; runpy.run_path({file!r})[{function!r}](*sys.argv[1:])"
        environment = {name: value for name, value in os.environ.items() if name != LIBRARY_VARIABLE}
        if self.libraries is not None:
            environment[LIBRARY_VARIABLE] = str(self.libraries)
        command = [str(self.python), "-c", code, *arguments]
        return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env=environment).stdout


def main() -> None:
    """Prints two tables for each model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("variants", nargs="+", type=find_variant, metavar="VARIANT")
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    options = parser.parse_args()
    variants: list[Variant] = options.variants
    widths = sorted({1, *options.widths})
    if len(variants) < 2:
        parser.error("two variants are needed at least")

    for number, variant in enumerate(variants, start=1):
        sys.stdout.write(f"{number}: {variant.call('show_kernels')}")
    for model in options.model:
        arguments = json.dumps([model, widths, options.threads])
        times: list[Times] = [{width: [] for width in widths} for _ in variants]
        for start in range(options.rounds):
            # The order rotates, so that no build always meets the warmer machine.
            for index in sorted(range(len(variants)), key=lambda i: (i - start) % len(variants)):
                for width, seconds in json.loads(variants[index].call("measure", arguments)).items():
                    times[index][int(width)].append(seconds)
        sys.stdout.write(f"\n{model}\n{time_table(times)}\n{yield_table(times)}")
        sys.stdout.flush()


def find_variant(text: str) -> Variant:
    """A virtual environment or a directory of libraries."""
    path = Path(text).expanduser().absolute()
    if (path / "bin" / "python").exists():
        return Variant(path / "bin" / "python")
    if any(path.glob("libllama.*")):
        return Variant(Path(sys.executable), path)
    raise argparse.ArgumentTypeError(f"{text} has neither bin/python nor libllama.so")


def time_table(times: Sequence[Times]) -> str:
    """Milliseconds by width, and ratios to the first variant's."""
    others = range(2, len(times) + 1)
    lines = ["width      1 ms" + "".join(f"{number:8} ms   ratio (of rounds)" for number in others)]
    for width, first in times[0].items():
        cells = [f"{width:5} {1000 * statistics.median(first):9.1f}"]
        for other in times[1:]:
            median = statistics.median(other[width])
            by_round = [b / a for a, b in zip(first, other[width], strict=True)]
            cells.append(
                f"{1000 * median:11.1f} {median / statistics.median(first):7.2f}"
                f" ({min(by_round):.2f}-{max(by_round):.2f})"
            )
        lines.append("".join(cells))
    return "\n".join(lines) + "\n"


def yield_table(times: Sequence[Times]) -> str:
    """Tokens by width in the time of a plain decode, were every draft accepted, and the most of them."""
    medians = [{width: statistics.median(rounds) for width, rounds in one.items()} for one in times]
    columns: list[dict[int, float]] = []
    for one in medians:
        columns += [tokens_per_plain(one, one[1]), tokens_per_plain(one, medians[0][1])]
    best = [max(column, key=lambda width: column[width]) for column in columns]
    pairs = zip(columns, best, strict=True)
    return "\n".join(
        [
            "tokens in the time of a plain decode, of the variant's own and of the first one's",
            "width" + "".join(f"   {number}: own   common" for number in range(1, len(times) + 1)),
            *(f"{width:5}" + "".join(f"{column[width]:9.2f}" for column in columns) for width in times[0]),
            " best" + "".join(f"{column[width]:9.2f}" for column, width in pairs),
            "   at" + "".join(f"{width:9}" for width in best),
            "",
        ]
    )


def tokens_per_plain(seconds: Mapping[int, float], plain_seconds: float) -> dict[int, float]:
    """Width -> tokens that it decodes in the time of a plain decode."""
    return {width: width * plain_seconds / each for width, each in seconds.items()}


def show_kernels() -> None:
    """Prints which kernels this process has loaded, and what compiled them."""
    from homespec.runtime import binding  # noqa: F401 - loads llama.cpp
    from homespec.runtime.compiler import library_compiler

    # Asked of the process itself: a library that misses its neighbours may find those of another build.
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    files = {line.split(maxsplit=5)[-1] for line in lines if "libggml-cpu" in line}
    kernels = [f"{file}, {library_compiler(Path(file)) or 'unknown compiler'}" for file in sorted(files)]
    sys.stdout.write((" and ".join(kernels) or "kernels inside libllama") + "\n")


def measure(arguments: str) -> None:
    """Measures in this process; prints seconds by width."""
    from homespec.calibration.measure import measure_target
    from homespec.catalog.store import resolve
    from homespec.runtime.context import LlamaContext
    from homespec.runtime.model import LlamaModel
    from homespec.runtime.threads import choose_threads

    name, widths, threads = json.loads(arguments)
    with LlamaModel(resolve(name).path) as model:
        context = LlamaContext(
            model,
            context_tokens=4 * DEPTH_TOKENS,
            max_rows=max(widths),
            num_threads=threads or choose_threads().num_threads,
        )
        # The context is too small for a second depth, and the budget large enough for every width.
        costs = measure_target(
            context,
            widths=widths,
            depths_tokens=(DEPTH_TOKENS, DEPTH_TOKENS),
            budget_seconds=600,
            max_samples=SAMPLES,
        )
        context.close()
    sys.stdout.write(json.dumps({width: costs.curve.seconds(width, DEPTH_TOKENS) for width in widths}))


if __name__ == "__main__":
    main()
