"""`homespec bench`: plain against speculative decoding on this machine, under equal conditions."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from homespec.cli.config import check_keys
from homespec.cli.options import DEFAULT_MODEL, Decorator, option, options, parse_settings
from homespec.errors import INTERRUPTED_EXIT_CODE, ConfigError, DecodeAbortedError, HomespecError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from homespec.benchmark.results import Results
    from homespec.benchmark.scenarios import Scenario
    from homespec.benchmark.settings import BenchSettings

_RESULTS_NAME = "results.jsonl"
_USUAL_PROMPTS, _USUAL_TOKENS, _USUAL_REPETITIONS, _USUAL_LENGTHS = 4, 128, 3, "5"
_WIDTH = 80

_MODEL_OPTIONS = [
    option(
        "-m",
        "--model",
        multiple=True,
        default=(DEFAULT_MODEL,),
        help="Target: a name of `homespec models list`, or a GGUF file. Repeatable.",
    ),
    option("-d", "--draft", default="auto", help="auto, ngram, or a draft model's name or file."),
    option("-c", "--context-tokens", metavar="N|max", help="Context size.  [default: 4096, or less]"),
    option("--kv", type=click.Choice(["f16", "q8_0", "q4_0"]), default="f16", help="Type of the KV cache."),
    option("-t", "--threads", type=int, help="Threads for one token.  [default: measured]"),
    option("--threads-batch", type=int, help="Threads for several tokens.  [default: measured]"),
]
_MEASUREMENT_OPTIONS: list[Decorator] = [
    click.option(
        "--quick", is_flag=True, help="Three minutes at most for a small model, and one answer at the end."
    ),
    click.option(
        "--scenario", multiple=True, metavar="NAME", help="Only this one. Repeatable.  [default: all]"
    ),
    click.option(
        "--prompts",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help='Prompts of your own, one {"prompt": ...} a line, instead of the scenarios. Repeatable.',
    ),
    click.option(
        "--num-prompts", type=int, help="Of each scenario.  [default: 4; with --quick all, in time]"
    ),
    click.option("-n", "--max-tokens", type=int, help="Of each answer.  [default: 128; with --quick 64]"),
    click.option("--temperature", type=float, default=0.0, show_default=True, help="0 is greedy."),
    click.option("--repetitions", type=int, help="Of each prompt by each arm.  [default: 3; with --quick 1]"),
    click.option(
        "--lengths",
        metavar="N,N,...",
        help="Of drafts in fixed arms.  [default: 5; with --quick one arm of 4]",
    ),
    click.option(
        "--arm",
        multiple=True,
        metavar="ARM",
        help='Only plain and this one: auto, "ngram 5", "draft-model 3", "ngram+draft-model 5". Repeatable.',
    ),
    click.option("--cold", is_flag=True, help="Measure cold starts: files on disk, models opened anew."),
    click.option("--fresh", is_flag=True, help="Leave out what earlier runs learned about the drafters."),
    click.option("--anyway", is_flag=True, help="Measure though the machine is busy or short of memory."),
]
_OUTPUT_OPTIONS: list[Decorator] = [
    click.option(
        "--out",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Keep every answer's figures, one JSON object a line.",
    ),
    click.option(
        "--report",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Write a page with plots into this directory.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the tables."),
]


@click.group(invoke_without_command=True)
@options(_MODEL_OPTIONS)
@options(_MEASUREMENT_OPTIONS)
@options(_OUTPUT_OPTIONS)
@click.pass_context
def group(context: click.Context, /, **values: Any) -> None:
    """Measure what speculation gains on this machine, against plain decoding of the same prompts.

    All arms of a target run on one opened model, take turns (A B, then B A), and find the same caches empty
    and the same files in memory. Ctrl-C ends the measurement and shows what there is.

    \b
    homespec bench --quick
    homespec bench -m qwen2.5-coder-1.5b-instruct --scenario code --out code.jsonl --report code
    homespec bench compare before.jsonl after.jsonl
    """  # noqa: D301 - \b keeps click from joining the lines
    if context.invoked_subcommand is not None:
        return
    names = {parameter.name or "" for parameter in context.command.params}
    check_keys("bench", names, context.default_map)
    settings = _settings(values)
    with _results_file(values) as path:
        context.exit(_run(settings, path, values))


command = group


@group.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the tables.")
def compare(before: Path, after: Path, as_json: bool) -> None:
    """Compare two files of `--out`: the same arms and scenarios, prompt by prompt."""
    from homespec.benchmark.compare import compare_results, describe_differences, render
    from homespec.benchmark.results import read_results

    one, other = read_results(before), read_results(after)
    changes = compare_results(one, other)
    differences = describe_differences(one, other)
    if as_json:
        found = [change.to_json() for change in changes]
        click.echo(json.dumps({"changes": found, "differences": differences}, ensure_ascii=False))
        return
    _print(render(changes))
    if differences:
        click.echo(click.wrap_text(differences, _WIDTH))


@group.command()
@click.argument("results", type=click.Path(path_type=Path))
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
def report(results: Path, directory: Path) -> None:
    """Write the page with plots from a file of `--out`; print where it is."""
    from homespec.benchmark.report import write_report

    click.echo(write_report(results, directory))


def _settings(values: dict[str, Any]) -> BenchSettings:
    from homespec.benchmark import quick
    from homespec.benchmark.settings import BenchSettings

    is_quick = values["quick"]
    _check_positive(values, "num_prompts", "max_tokens", "repetitions")
    draft = values["draft"]
    if draft == "off":
        raise ConfigError("With --draft off there is nothing to compare.", hint="Leave it out.")
    if draft not in ("auto", "ngram") and not draft.startswith("ngram+"):
        draft = f"ngram+{draft}"
    usual = {"draft_length": None, "prefer": "context", "memory": None, "mmap": True, "repack": True}
    scenarios = _scenarios(values)
    num_prompts = values["num_prompts"] or (None if is_quick else _USUAL_PROMPTS)
    return BenchSettings(
        targets=tuple(dict.fromkeys(values["model"])),
        engine=parse_settings("", {**usual, **values, "draft": draft}),
        scenarios=tuple(_cut(scenario, num_prompts) for scenario in scenarios),
        arm_names=values["arm"] or (quick.ARMS if is_quick and not values["lengths"] else ()),
        lengths=_lengths(values["lengths"]),
        max_tokens=values["max_tokens"] or (quick.MAX_TOKENS if is_quick else _USUAL_TOKENS),
        temperature=values["temperature"],
        repetitions=values["repetitions"] or (1 if is_quick else _USUAL_REPETITIONS),
        cold=values["cold"],
        anyway=values["anyway"],
        limit_seconds=quick.LIMIT_SECONDS if is_quick else None,
    )


def _check_positive(values: dict[str, Any], *names: str) -> None:
    for name in names:
        if values[name] is not None and values[name] < 1:
            raise ConfigError(f"--{name.replace('_', '-')} is {values[name]}; at least 1 is needed.")


def _lengths(text: str | None) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(part) for part in (text or _USUAL_LENGTHS).split(",")))
    except ValueError:
        raise ConfigError(f"--lengths {text!r} is no list of numbers.", hint="Write it like 3,5.") from None


def _scenarios(values: dict[str, Any]) -> list[Scenario]:
    """Those that were named, and the user's own files; without either all, or the few of --quick."""
    from homespec.benchmark import quick
    from homespec.benchmark.scenarios import read_prompts, refuse_repeats, shipped_scenarios

    own = [read_prompts(path) for path in values["prompts"]]
    shipped = {scenario.name: scenario for scenario in shipped_scenarios()}
    for name in values["scenario"]:
        if name not in shipped:
            raise ConfigError(f"There is no scenario {name!r}.", hint=f"Name one of {', '.join(shipped)}.")
    names: Iterable[str] = values["scenario"]
    if not names and not own:
        names = [name for name in quick.SCENARIOS if name in shipped] if values["quick"] else shipped
    chosen = [*(shipped[name] for name in dict.fromkeys(names)), *own]
    if len({scenario.name for scenario in chosen}) < len(chosen):
        raise ConfigError("Two scenarios have the same name.", hint="Rename a file of --prompts.")
    refuse_repeats(chosen)
    return chosen


def _cut(scenario: Scenario, num_prompts: int | None) -> Scenario:
    import dataclasses

    return dataclasses.replace(scenario, prompts=scenario.prompts[:num_prompts])


@contextlib.contextmanager
def _results_file(values: dict[str, Any]) -> Iterator[Path]:
    """Where the records go; without --out and --report only until the summary has been made of them."""
    if values["out"] is not None:
        yield values["out"]
    elif values["report"] is not None:
        values["report"].mkdir(parents=True, exist_ok=True)
        yield values["report"] / _RESULTS_NAME
    else:
        with tempfile.TemporaryDirectory() as directory:
            yield Path(directory) / _RESULTS_NAME


def _run(settings: BenchSettings, path: Path, values: dict[str, Any]) -> int:
    from homespec.benchmark.progress import shown_progress
    from homespec.benchmark.records import Recorder
    from homespec.benchmark.results import read_results
    from homespec.benchmark.runner import run_bench
    from homespec.benchmark.state import experience

    if values["report"] is not None:
        from homespec.benchmark.plots import require_matplotlib

        require_matplotlib()
    failure: BaseException | None = None
    with Recorder(path) as recorder:
        try:
            with experience(fresh=values["fresh"]), shown_progress() as show:
                run_bench(settings, recorder, show)
        except (HomespecError, KeyboardInterrupt) as error:
            # What has been measured by then is shown all the same.
            failure = error
    if failure is not None and path.stat().st_size == 0:
        path.unlink()
        raise failure
    results = read_results(path)
    _show(results, values)
    if values["report"] is not None and results.runs:
        from homespec.benchmark.report import write_report

        click.echo(f"The report is in {write_report(path, values['report'])}.", err=True)
    if values["out"] is not None:
        click.echo(f"All answers' figures are in {path}.", err=True)
    return _exit_code(failure)


def _show(results: Results, values: dict[str, Any]) -> None:
    from homespec.benchmark.quick import answers
    from homespec.benchmark.summary import render, to_json

    found = answers(results) if values["quick"] else []
    if values["as_json"]:
        click.echo(json.dumps({**to_json(results), "answers": found}, ensure_ascii=False))
        return
    _print(render(results))
    for answer in found:
        click.echo("\n" + click.wrap_text(answer, _WIDTH))


def _print(parts: Iterable[RenderableType]) -> None:
    from rich.console import Console

    console = Console(highlight=False, width=_WIDTH)
    for part in parts:
        console.print(part)


def _exit_code(failure: BaseException | None) -> int:
    """Tells why the measurement ended early: the summary has gone to stdout, so this goes to stderr."""
    if failure is None:
        return 0
    if isinstance(failure, HomespecError) and not isinstance(failure, DecodeAbortedError):
        click.echo(click.style("Error: ", fg="red", bold=True) + failure.message, err=True)
        if failure.hint:
            click.echo(click.style("Hint: ", bold=True) + failure.hint, err=True)
        return failure.exit_code
    click.echo("Interrupted; this is what was measured until then.", err=True)
    return INTERRUPTED_EXIT_CODE
