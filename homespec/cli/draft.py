"""`homespec draft`: draft models that fit this machine."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from homespec.errors import ConfigError, DecodeAbortedError

if TYPE_CHECKING:
    from homespec.engine.diet.judging import Finding
    from homespec.engine.diet.passages import Prompt
    from homespec.engine.diet.reducing import Outcome
    from homespec.engine.diet.survey import Job, Worth

_TIME = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)?")
_SECONDS = {"s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0}
_PROMPTS = click.option(
    "--prompts",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help='Prompts to judge by, one {"prompt": ...} a line, instead of the shipped ones. Repeatable.',
)
_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group()
def command() -> None:
    """Make a draft model cheaper, find out what one is worth, and choose which one drafts."""


@command.command()
@click.argument("draft")
@click.option("--for", "target", required=True, metavar="TARGET", help="The model that it is to help.")
@click.option("--auto", is_flag=True, help="Search for what makes TARGET fastest on this machine.")
@click.option("--type", "type_name", metavar="TYPE", help="Number format of all matrices, such as Q4_0.")
@click.option("--vocab", "num_tokens", type=int, metavar="N", help="Keep the N most useful tokens.")
@click.option("--layers", "num_layers", type=int, metavar="K", help="Keep the K layers missed least.")
@click.option(
    "--text",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Text like that which TARGET will write, to count useful tokens on. Repeatable.",
)
@click.option("--time", "time_text", default="15m", show_default=True, help="Time that it may take.")
@click.option("--memory", metavar="SIZE", help="Plan for a machine with this much memory, such as 4GiB.")
@click.option("--output", type=click.Path(path_type=Path), help="File to write.  [default: with the models]")
@_PROMPTS
@_AS_JSON
def reduce(  # noqa: PLR0913 - one for each option
    draft: str,
    target: str,
    auto: bool,
    type_name: str | None,
    num_tokens: int | None,
    num_layers: int | None,
    text: tuple[Path, ...],
    time_text: str,
    memory: str | None,
    output: Path | None,
    prompts: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Make a smaller draft model from DRAFT, or from TARGET itself if both are the same.

    It is judged by the target's own replies and by what decodes cost here. Where it is better than DRAFT it
    drafts for TARGET from now on; `homespec draft rm` takes that back.

    \b
    homespec draft reduce qwen2.5-coder-0.5b-instruct --for qwen2.5-coder-1.5b-instruct --auto
    homespec draft reduce DRAFT --for TARGET --type Q4_0 --vocab 32768
    """  # noqa: D301 - \b keeps click from joining the lines
    from homespec.engine.diet.reducing import reduce_draft
    from homespec.reduce.search import Recipe
    from homespec.runtime.quantize import check_file_type

    if auto == any(value is not None for value in (type_name, num_tokens, num_layers)):
        raise ConfigError(
            "Either homespec searches, or you say what to make.",
            hint="Pass --auto, or some of --type, --vocab and --layers.",
        )
    recipe = None if auto else Recipe(check_file_type(type_name) if type_name else None, num_tokens)
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in text]
    with _job(draft, target, prompts, _seconds(time_text), memory, texts) as job:
        outcome = reduce_draft(job, recipe, num_layers, output)
    if as_json:
        entry = outcome.entry
        click.echo(
            json.dumps(
                {
                    **_as_json(outcome.worth),
                    "chosen": outcome.chosen,
                    "slower": {kind: asdict(costs) for kind, costs in outcome.slower.items()},
                    "impossible": outcome.impossible,
                    "name": entry.name if entry else None,
                    "is_default": outcome.is_default,
                }
            )
        )
        return
    _show(outcome.worth, outcome.chosen)
    _tell_outcome(outcome, draft, target)


def _tell_outcome(outcome: Outcome, draft: str, target: str) -> None:
    best, lookup = outcome.worth.findings[outcome.chosen], outcome.worth.lookup
    rival = draft if outcome.rival == next(iter(outcome.worth.findings)) else outcome.rival
    if outcome.slower:
        costs = ", ".join(
            f"{name} {1000 * cost.seconds_per_token:.1f}" for name, cost in outcome.slower.items()
        )
        click.echo(f"Not looked into, since slower (ms a token): {costs}.")
    for text in outcome.impossible:
        click.echo(f"Could not be made: {text}")
    if outcome.entry is None:
        click.echo(f"Nothing is better for {target} than {rival}: nothing was made.")
        return
    name = outcome.entry.name
    click.echo(f"Made {name}.")
    if outcome.is_default:
        click.echo(f"It drafts for {target} from now on; homespec draft rm {name} ends that.")
    elif outcome.is_better:
        click.echo(f"{target} is not in the catalogue: take it with --draft {name}.")
    else:
        click.echo(f"It is no better than {rival}, which goes on drafting; --draft {name} takes it.")
    if best.expectation.speedup <= lookup.speedup * 1.01:
        click.echo("On this machine lookup alone is expected to be as fast: drafting may not pay.")


@command.command("eval")
@click.argument("draft")
@click.option("-m", "--model", "target", required=True, metavar="TARGET", help="The model that it helps.")
@click.option("--time", "time_text", default="5m", show_default=True, help="Time that it may take.")
@_PROMPTS
@_AS_JSON
def evaluate(draft: str, target: str, time_text: str, prompts: tuple[Path, ...], as_json: bool) -> None:
    """Find out what DRAFT is worth for TARGET: acceptance, cost, and the speed to expect.

    Acceptance is that of greedy drafts along the target's own greedy replies.
    """
    from homespec.engine.diet.reducing import evaluate as evaluate_draft

    with _job(draft, target, prompts, _seconds(time_text), None, ()) as job:
        worth = evaluate_draft(job)
    if as_json:
        click.echo(json.dumps(_as_json(worth)))
    else:
        _show(worth, "")


@command.command("list")
@_AS_JSON
def list_(as_json: bool) -> None:
    """List which model drafts for which."""
    from homespec.catalog.entries import load_catalog
    from homespec.catalog.store import draft_model, model_path

    pairs = {
        name: draft_model(entry)
        for name, entry in load_catalog().items()
        if entry.role == "target" and model_path(name).is_file()
    }
    if as_json:
        click.echo(json.dumps(pairs))
        return
    for target, draft in pairs.items():
        click.echo(f"{target}: {draft or 'n-gram lookup only'}")


@command.command()
@click.argument("name")
def rm(name: str) -> None:
    """Remove a draft model that was made here; its target gets its former one back."""
    from homespec.catalog.store import find_entry
    from homespec.cli.removing import delete

    entry = find_entry(name)
    if entry.made_from is None or entry.role != "draft":
        raise ConfigError(
            f"{name} is no draft model that was made here.",
            hint="`homespec models rm` removes models that were downloaded.",
        )
    delete(name)


def _seconds(text: str) -> float:
    match = _TIME.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise ConfigError(f"{text!r} is no time.", hint="Write it like 90s, 15m or 1h.")
    return float(match[1]) * _SECONDS[match[2]]


@contextlib.contextmanager
def _job(
    draft: str,
    target: str,
    prompts: tuple[Path, ...],
    seconds: float,
    memory: str | None,
    texts: list[str] | tuple[()],
) -> Iterator[Job]:
    """A job that shows on stderr what it does, and that Ctrl-C stops."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from homespec.engine.diet.survey import Job
    from homespec.runtime.interrupt import abort_on_interrupt
    from homespec.units import parse_bytes

    memory_bytes = parse_bytes(memory) if memory else None
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TimeElapsedColumn())
    # It takes time from the cores that are being measured.
    with Progress(*columns, console=console, transient=True, refresh_per_second=2) as bars:
        bar, said = bars.add_task("", total=1.0), ""

        def tell(what: str, share: float) -> None:
            nonlocal said
            bars.update(bar, description=what, completed=share)
            if what != said and not console.is_terminal:
                click.echo(f"{what} ...", err=True)
            said = what

        job = Job(target, draft, _prompts(prompts), seconds, memory_bytes, texts, tell=tell)
        try:
            with abort_on_interrupt(job.abort):
                yield job
        except (DecodeAbortedError, KeyboardInterrupt):
            click.echo("Stopped. What was found is kept, and the next time goes on from there.", err=True)
            raise click.Abort from None


def _prompts(files: tuple[Path, ...]) -> list[Prompt]:
    from homespec.benchmark.scenarios import read_prompts, shipped_scenarios
    from homespec.drafting.router import classify
    from homespec.engine.diet.passages import in_turn

    scenarios = [read_prompts(path) for path in files] or shipped_scenarios()
    # The kind under which the controller will learn about such text, not the scenario's name.
    return in_turn([(classify(one.prompts[0], "").kind, one.prompts) for one in scenarios])


def _as_json(worth: Worth) -> dict[str, Any]:
    return {
        "drafters": {name: asdict(finding) for name, finding in worth.findings.items()},
        "lookup_speedup": worth.lookup.speedup,
        "plain_seconds": worth.plain_seconds,
        "num_replies": worth.num_replies,
    }


def _show(worth: Worth, chosen: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from homespec.units import format_bytes

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("draft model", max_width=30)
    for title in (
        "ms a\ntoken",
        "of a\nstep",
        "length\nat 5",
        "with\nlookup",
        "alone, best\nfixed length",
        "memory",
    ):
        table.add_column(title, justify="right")
    for name, finding in worth.findings.items():
        table.add_row(*_row(name, finding, worth), style="bold" if name == chosen else "")
    console = Console(highlight=False, width=None if Console().is_terminal else 100)
    console.print(table)
    first = next(iter(worth.findings))
    best = worth.findings.get(chosen) or list(worth.findings.values())[-1]
    shares = " ".join(f"{share:.2f}" for share in best.acceptance.by_position)
    console.print(f"Accepted by position ({chosen or list(worth.findings)[-1]}): {shares}")
    notes = (
        f"By {worth.num_replies} greedy replies of the target; {first} is what the others are compared with.",
        "Length: mean acceptance length of drafts of 5 tokens. Speeds: multiples of plain decoding, as the",
        f"controller expects them here after the prompt; {worth.lookup.speedup:.2f} with lookup alone.",
        f"Memory: beside the target ({format_bytes(best.file_bytes)} on disk).",
    )
    for note in notes:
        console.print(note)


def _row(name: str, finding: Finding, worth: Worth) -> tuple[str, ...]:
    from homespec.units import format_bytes

    expected, cost = finding.expectation, finding.costs.seconds_per_token
    return (
        name,
        f"{1000 * cost:.1f}",
        f"{cost / worth.plain_seconds:.2f}",
        f"{finding.acceptance.mean_length:.2f}",
        f"{expected.speedup:.2f}",
        f"{expected.fixed_speedup:.2f} at {expected.fixed_length}",
        format_bytes(finding.needed_bytes) if finding.fits else "no room",
    )
