"""`homespec plan`: what a model costs in memory and whether a drafter has room, before anything is loaded."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import click

from homespec.cli.comparing import show_versions
from homespec.cli.config import check_keys
from homespec.cli.options import DEFAULT_MODEL, MEMORY_OPTIONS, options, parse_settings
from homespec.errors import ConfigError
from homespec.units import format_bytes

if TYPE_CHECKING:
    from rich.table import Table

    from homespec.engine.forecast import Forecast
    from homespec.engine.preparing import Preparation
    from homespec.planner.options import Option

_BAR_WIDTH = 40
# Parts of a price as people call them, in the order of the table.
_PART_LABELS = {
    "weights_bytes": "weights",
    "read_weights_bytes": "weights (read)",
    "repacked_bytes": "repacked copy",
    "kv_cache_bytes": "KV cache",
    "state_bytes": "running state",
    "compute_bytes": "compute",
    "output_bytes": "logits",
    "overhead_bytes": "tokenizer etc.",
    "drafter_bytes": "n-gram index",
    "corpus_bytes": "corpus index",
    "process_bytes": "Python",
    "library_bytes": "libraries",
    "correction_bytes": "earlier loads",
}


@click.command()
@click.argument("model", default=DEFAULT_MODEL)
@options(MEMORY_OPTIONS)
@click.option(
    "--compare", is_flag=True, help="Weigh the number formats of MODEL, with and without speculation."
)
@click.option(
    "--with",
    "others",
    multiple=True,
    metavar="NAME",
    help="With --compare: another version of MODEL, a name or a GGUF file. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the table.")
@click.pass_context
def command(
    context: click.Context,
    /,
    model: str,
    compare: bool,
    others: tuple[str, ...],
    as_json: bool,
    **values: Any,
) -> None:
    """Plan the memory for MODEL (a name or a GGUF file), with and without a drafter. Loads nothing.

    \b
    homespec plan qwen2.5-coder-1.5b-instruct --draft qwen2.5-coder-0.5b-instruct
    homespec plan qwen2.5-coder-1.5b-instruct --context-tokens max --memory 4GiB
    homespec plan qwen2.5-coder-1.5b-instruct --compare
    """  # noqa: D301 - \b keeps click from joining the lines
    check_keys("plan", {parameter.name or "" for parameter in context.command.params}, context.default_map)
    from homespec.engine.forecast import foretell
    from homespec.engine.preparing import prepare

    settings = parse_settings(model, values)
    if compare:
        show_versions(settings, others, as_json=as_json)
        return
    if others:
        raise ConfigError("--with names a version to compare with.", hint="Pass --compare as well.")
    preparation = prepare(settings)
    forecast = foretell(preparation)
    if as_json:
        click.echo(json.dumps(_as_json(preparation, forecast)))
    else:
        _show(preparation)
        _show_forecast(preparation, forecast)


def _as_json(preparation: Preparation, forecast: Forecast | None) -> dict[str, Any]:
    plan = preparation.plan
    return {
        "target": preparation.target.model.name,
        "draft": preparation.draft.model.name if preparation.draft else None,
        "verdict": preparation.option.verdict,
        **dataclasses.asdict(preparation.summary()),
        "given_up_context_tokens": plan.given_up_context_tokens,
        "advice": plan.advice,
        "chosen": _option_json(preparation.option),
        "options": [_option_json(option) for option in plan.options],
        "memory": dataclasses.asdict(preparation.memory),
        "forecast": dataclasses.asdict(forecast) if forecast else None,
    }


def _option_json(option: Option) -> dict[str, Any]:
    return {
        "kind": option.kind,
        "context_tokens": option.context_tokens,
        "draft_context_tokens": option.draft_context_tokens,
        "draft_kv_type": option.draft_kv_type if option.kind == "draft" else None,
        "verdict": option.verdict,
        "needed_bytes": option.price.needed_bytes,
        "resident_bytes": option.price.resident_bytes,
        "parts": option.price.parts(),
    }


def _show(preparation: Preparation) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=False)
    plan, option = preparation.plan, preparation.option
    for role, candidate in (("target", preparation.target), ("draft ", preparation.draft)):
        if candidate is not None:
            facts = candidate.facts
            console.print(
                f"{role}  [bold]{candidate.model.name}[/]: {facts.architecture}, {facts.quantization}, "
                f"{facts.num_layers} layers, trained on {facts.training_context_tokens:,} tokens"
            )
            if not facts.is_known:
                console.print(f"        The memory layout of {facts.architecture} is unknown: upper bounds.")
    if corpus := preparation.corpus.paths:
        size = format_bytes(preparation.corpus.text_bytes)
        console.print(f"corpus  {len(corpus):,} text file{'s' * (len(corpus) != 1)}, {size}")
    console.print(_options_table(preparation))
    bound = preparation.memory.tightest_bound()
    console.print(_bar(option.price.needed_bytes, plan.headroom_bytes))
    console.print(
        f"Headroom: {format_bytes(bound.available_bytes)} available of {format_bytes(bound.limit_bytes)} "
        f"({bound.source}), less a margin for other programs."
    )
    if preparation.memory.swap_bytes:
        zram = " of it compressed memory" if preparation.memory.zram_bytes else ""
        console.print(f"Swap ({format_bytes(preparation.memory.swap_bytes)}{zram}) is not counted.")
    _show_residency(preparation)
    console.print()
    on = "on" if preparation.reason == "on" else f"off ({preparation.reason})"
    console.print(f"[bold]Speculation: {on}.[/] {preparation.explanation}")
    console.print(f"Context: {option.context_tokens:,} tokens. Verdict: [bold]{_verdict(option)}[/].")
    for advice in plan.advice:
        console.print(f"To change that: {advice}")


def _show_forecast(preparation: Preparation, forecast: Forecast | None) -> None:
    if forecast is None:
        from homespec.engine.forecast import calibrate_command

        # The command stays on one line, to be copied.
        click.echo(f"Speed: not measured here yet:\n  {calibrate_command(preparation)}")
        return
    click.echo(f"Speed: {forecast.plain_tokens_per_second:.1f} tokens/s plainly, as measured here.")
    if forecast.draft_is_hopeless and preparation.draft is not None:
        name = preparation.draft.model.name
        click.echo(f"{name} was measured not to pay, however often it is right: `run` leaves it out.")
    if forecast.tokens_per_second:
        kinds = ", ".join(f"{kind} {speed:.1f}" for kind, speed in forecast.tokens_per_second.items())
        click.echo(f"With drafts, by what such texts yielded before: {kinds} tokens/s.")
    if forecast.unseen_tokens_per_second > forecast.plain_tokens_per_second:
        speed = forecast.unseen_tokens_per_second
        click.echo(f"On texts of other kinds about {speed:.1f} tokens/s, by costs and usual acceptance.")


def _options_table(preparation: Preparation) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("", no_wrap=True)
    shown = list(preparation.plan.options)
    for option in shown:
        chosen = option == preparation.option
        table.add_column(
            "\n".join(_title(option)), justify="right", style="bold" if chosen else "", no_wrap=True
        )
    used = {name for option in shown for name in option.price.parts()}
    for name, label in _PART_LABELS.items():
        if name in used:
            parts = (option.price.parts().get(name, 0) for option in shown)
            table.add_row(label, *(format_bytes(num_bytes) if num_bytes else "-" for num_bytes in parts))
    table.add_section()
    table.add_row("needed", *(format_bytes(option.price.needed_bytes) for option in shown), style="bold")
    table.add_row("verdict", *(_verdict(option) for option in shown))
    table.add_row("", *("chosen" if option == preparation.option else "" for option in shown))
    return table


def _title(option: Option) -> list[str]:
    context = f"{option.context_tokens:,}"
    if option.kind != "draft":
        return [{"plain": "plain", "ngram": "n-gram"}[option.kind], context]
    lines = ["draft", context]
    if option.draft_context_tokens < option.context_tokens:
        lines.append(f"window {option.draft_context_tokens:,}")
    return lines if option.draft_kv_type == "f16" else [*lines, f"KV {option.draft_kv_type}"]


def _verdict(option: Option) -> str:
    return {"fits": "fits", "would_page": "reads disk", "cannot_run": "cannot run"}[option.verdict]


def _bar(needed_bytes: int, headroom_bytes: int) -> str:
    share = needed_bytes / headroom_bytes if headroom_bytes else 2.0
    filled = min(_BAR_WIDTH, round(share * _BAR_WIDTH))
    color = "green" if share <= 1 else "red"
    bar = f"[{color}]{'#' * filled}[/]{'.' * (_BAR_WIDTH - filled)}"
    return f"{bar} {format_bytes(needed_bytes)} of {format_bytes(headroom_bytes)} headroom"


def _show_residency(preparation: Preparation) -> None:
    from homespec.runtime.residency import resident_bytes

    for candidate in (preparation.target, preparation.draft):
        if candidate is not None:
            path = candidate.model.path
            resident, size = resident_bytes(path), path.stat().st_size
            if resident is not None:
                click.echo(f"In memory now: {format_bytes(resident)} of {path.name} ({format_bytes(size)}).")
