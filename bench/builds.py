"""Is another build of llama.cpp faster? Decode times by width in two virtual environments, interleaved.

    .venv/bin/python bench/builds.py ONE/.venv OTHER/.venv --model TARGET [--model DRAFT] [--rounds 4]

Each round opens every model once in each environment, in turns, in a process of its own (two builds cannot
live in one), and takes the lower median of a few decodes by width. Printed is, by width, the median over the
rounds and the other environment's relative to the first one's. Both environments need homespec installed;
for example, with clang:

    CC=clang-16 CXX=clang++-16 CMAKE_ARGS=-DLLAVA_BUILD=OFF pip install --no-cache-dir --editable .
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)
DEPTH_TOKENS, SAMPLES = 64, 3
Times = dict[int, list[float]]


def main() -> None:
    """Prints a table for each model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("environments", nargs=2, type=Path, metavar="VENV")
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    options = parser.parse_args()

    for environment in options.environments:
        sys.stdout.write(f"{environment}: {compiler(environment)}\n")
    for model in options.model:
        times: list[Times] = [{width: [] for width in options.widths} for _ in options.environments]
        for number in range(options.rounds):
            # The order changes, so that neither build always meets the warmer machine.
            for index in (0, 1) if number % 2 == 0 else (1, 0):
                measured = measure_in(options.environments[index], model, options.widths, options.threads)
                for width, seconds in measured.items():
                    times[index][width].append(seconds)
        show(model, times)


def show(model: str, times: list[Times]) -> None:
    """One model's table."""
    sys.stdout.write(f"\n{model}\nwidth   first ms   other ms   ratio   smallest and largest of the rounds\n")
    one, other = times
    for width in one:
        ratios = [b / a for a, b in zip(one[width], other[width], strict=True)]
        medians = statistics.median(one[width]), statistics.median(other[width])
        sys.stdout.write(
            f"{width:5} {1000 * medians[0]:10.1f} {1000 * medians[1]:10.1f} {medians[1] / medians[0]:7.2f}"
            f"   {min(ratios):.2f} to {max(ratios):.2f}\n"
        )
    sys.stdout.flush()


def compiler(environment: Path) -> str:
    """What compiled the environment's llama.cpp."""
    code = "from homespec.calibration.fingerprint import build_compiler; print(build_compiler())"
    return run(environment, "-c", code).strip() or "unknown compiler"


def measure_in(environment: Path, model: str, widths: list[int], threads: int | None) -> dict[int, float]:
    """Seconds by width, from a process in the environment."""
    arguments = json.dumps([model, list(widths), threads])
    # This very file, so that both environments run the same code.
    code = f"import sys, runpy; runpy.run_path({str(Path(__file__).resolve())!r})['measure'](sys.argv[1])"
    output = run(environment, "-c", code, arguments)
    return {int(width): seconds for width, seconds in json.loads(output).items()}


def run(environment: Path, *arguments: str) -> str:
    """What the environment's Python prints."""
    command = [str(environment / "bin" / "python"), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


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
