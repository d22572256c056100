"""homespec against other programs, on the same prompts, with the same sampling, limits and threads.

    .venv/bin/python bench/peers/run.py --target NAME_OR_PATH [--target ...] [--draft NAME_OR_PATH]
        --prompts SUITE.jsonl [SUITE.jsonl ...] [--num-prompts 6] [--max-tokens 128] [--jsonl peers.jsonl]
        [--arms 'homespec *' 'llama-server *' ...] [--baseline 'llama-server plain'] [--table peers.md]

A suite has one {"prompt": ...} a line. For each prompt, all arms (homespec, llama.cpp with its kinds of
speculation, llama-cpp-python; `llama-server` and `ollama` where they are on the PATH) answer one after
another, each in a process of its own that stays open, and who begins changes from prompt to prompt. Every
arm first answers something else to get warm. All get the same tokens and find an empty prompt cache.

What is measured is added to the file at once. Stopped (Ctrl-C, `timeout`) and started again with the same
file, the program measures what is missing and prints the table of all that is there: speed of whole replies,
prompt and drafting included, and its ratio to llama.cpp's plain decoding. So a long run can be made in
pieces: a target and a suite at a time into one file, or into one each (`merge.py` makes a table of several).
Opening the workers and getting them warm takes some seconds an arm in each piece, and what homespec learns
about its drafters is forgotten between two. An arm that fails is left out, and the table says so.

llama.cpp comes in the package xllamacpp, which is installed into an environment of its own in the cache
directory. Its code is for any CPU with AVX2. The fair peer is compiled for this CPU, by the same compiler as
llama-cpp-python; put it on the PATH, and the arms `llama-server *` take part, with the same settings:

    cmake -S llama.cpp -B build -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF
    cmake --build build --target llama-server
    PATH=$PWD/build/bin:$PATH .venv/bin/python bench/peers/run.py --baseline 'llama-server plain' ...
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers import prompts, table
from bench.peers.arms import ARMS, BASELINE, Arm, choose_arms
from bench.peers.pool import WARM_UP_TOKENS, WorkerPool
from bench.peers.prompts import Prompt
from bench.peers.protocol import Opening
from bench.peers.results import Results, Settings
from bench.peers.schedule import PAUSE_SECONDS, Schedule, Task, make_request, missing_tasks
from bench.peers.workers import Worker, start_worker
from homespec.catalog.store import ResolvedModel, resolve
from homespec.errors import INTERRUPTED_EXIT_CODE, ConfigError, HomespecError
from homespec.runtime.threads import choose_threads
from homespec.telemetry.machine import read_memory


def main() -> None:
    """Measures, and prints the table."""
    options = parse_options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.stdout.write(compare(options))
    except HomespecError as error:
        sys.stderr.write(f"Error: {error.message}\n" + (f"Hint: {error.hint}\n" if error.hint else ""))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped. What was measured is kept; start again to go on.\n")
        sys.exit(INTERRUPTED_EXIT_CODE)


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the command line.

    Args:
        arguments: None for the process's own.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", action="append", required=True, help="may be given several times")
    parser.add_argument("--draft", help="the draft model, for all programs that can use one")
    parser.add_argument("--prompts", type=Path, nargs="+", required=True)
    parser.add_argument("--num-prompts", type=int, default=6, help="of each suite")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--context-tokens", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=choose_threads().num_threads)
    parser.add_argument("--baseline", default=BASELINE, help="the arm that the others are compared with")
    parser.add_argument("--arms", nargs="+", default=[], help="names with wildcards, such as 'homespec *'")
    parser.add_argument("--jsonl", type=Path, default=Path("peers.jsonl"), help="the file of results")
    parser.add_argument("--table", type=Path, help="write the table there as well")
    return parser.parse_args(arguments)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared.

    Attributes:
        targets: the models; each is measured by itself.
        draft: the draft model, if there is one.
        prompts: all prompts.
        arms: who answers.
        settings: of all requests.
    """

    targets: Sequence[ResolvedModel]
    draft: ResolvedModel | None
    prompts: Sequence[Prompt]
    arms: Sequence[Arm]
    settings: Settings

    @property
    def models(self) -> list[tuple[ResolvedModel, str]]:
        """Every model with its role."""
        targets = [(target, "target") for target in self.targets]
        return [*targets, (self.draft, "draft")] if self.draft else targets


def compare(options: argparse.Namespace) -> str:
    """Measures what is missing.

    Returns:
        The table.

    Raises:
        HomespecError: a model, a suite, the file of results or an option cannot be used.
    """
    comparison = _plan(options)
    results = Results(options.jsonl, comparison.settings)
    tasks = {
        target.name: missing_tasks(target.name, comparison.prompts, comparison.arms, results.done)
        for target in comparison.targets
    }
    if any(tasks.values()):
        results.begin(comparison.models, comparison.arms)
    for target in comparison.targets:
        if tasks[target.name]:
            measure(target, comparison, tasks[target.name], results)
    text = table.markdown(results.records, options.baseline)
    if options.table:
        options.table.write_text(text, encoding="utf-8")
    return text


def _plan(options: argparse.Namespace) -> Comparison:
    if options.baseline not in (names := [arm.name for arm in ARMS]):
        raise ConfigError(f"There is no arm {options.baseline!r}.", hint=f"Name one of {', '.join(names)}.")
    targets = [resolve(name) for name in options.target]
    if len({target.name for target in targets}) < len(targets):
        raise ConfigError("Two targets have the same name.", hint="Rename one of the files.")
    draft = resolve(options.draft) if options.draft else None
    arms, notices = choose_arms(options.arms, has_draft=draft is not None)
    sys.stderr.writelines(f"{notice}\n" for notice in notices)
    if not arms:
        raise ConfigError("No arm is left to measure.", hint="Leave out --arms to measure all.")
    return Comparison(
        targets=targets,
        draft=draft,
        prompts=prompts.read_suites(options.prompts, options.num_prompts),
        arms=arms,
        settings=Settings(
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            context_tokens=options.context_tokens,
            num_threads=options.threads,
            draft=draft.name if draft else None,
        ),
    )


def measure(target: ResolvedModel, comparison: Comparison, tasks: Sequence[Task], results: Results) -> None:
    """Measures a target.

    Args:
        target: the model.
        comparison: what is compared.
        tasks: what is left to measure.
        results: where the answers go.

    Raises:
        HomespecError: the model cannot be opened, or a prompt does not fit into the context.
    """
    settings, draft = comparison.settings, comparison.draft
    texts = [prompts.WARM_UP, *(prompt.text for prompt in comparison.prompts)]
    warm_up, *rendered = prompts.render(target.path, texts)
    longest = max(len(one.tokens) for one in rendered)
    if longest + settings.max_tokens > settings.context_tokens:
        raise ConfigError(
            f"A prompt has {longest:,} tokens and its reply up to {settings.max_tokens:,}; the context holds "
            f"{settings.context_tokens:,}.",
            hint=f"Pass --context-tokens {longest + settings.max_tokens}.",
        )

    def start(arm: Arm) -> Worker:
        opening = Opening(
            target=str(target.path),
            draft=str(draft.path) if draft and arm.draft != "none" else None,
            context_tokens=settings.context_tokens,
            num_threads=settings.num_threads,
            settings=arm.settings,
        )
        return start_worker(arm, opening)

    files = [target.path, *([draft.path] if draft else [])]
    pool = WorkerPool(
        start,
        make_request(warm_up, settings, seed=0, max_tokens=min(WARM_UP_TOKENS, settings.max_tokens)),
        model_bytes=sum(path.stat().st_size for path in files),
        headroom_bytes=lambda: read_memory().headroom_bytes(),
    )
    requests = {
        prompt: make_request(one, settings, seed=number, max_tokens=settings.max_tokens)
        for number, (prompt, one) in enumerate(zip(comparison.prompts, rendered, strict=True))
    }
    with contextlib.closing(pool):
        Schedule(target.name, pool, results, PAUSE_SECONDS).run(tasks, requests)


if __name__ == "__main__":
    main()
