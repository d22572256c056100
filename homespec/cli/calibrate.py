"""`homespec calibrate`: measures what decodes cost here, stores it, and shows the curve."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from homespec.cli.config import check_keys
from homespec.cli.options import DEFAULT_MODEL, option, options, parse_settings
from homespec.cli.progress import shown_share
from homespec.errors import ConfigError, DecodeAbortedError

if TYPE_CHECKING:
    from rich.table import Table

    from homespec.calibration.costs import TargetCosts
    from homespec.calibration.measure import Form
    from homespec.calibration.store import Calibration
    from homespec.calibration.threads import ThreadComparison
    from homespec.engine.preparing import Preparation

_BAR_WIDTH = 14

_OPTIONS = [
    option(
        "-d",
        "--draft",
        default="auto",
        help="auto, off, or a draft model's name or file; it is calibrated as well.",
    ),
    option("-c", "--context-tokens", metavar="N|max", help="Context size, which bounds the second depth."),
    option("--kv", type=click.Choice(["f16", "q8_0", "q4_0"]), default="f16", help="Type of the KV cache."),
    option("--mmap/--no-mmap", default=True, help="Map the model file instead of reading it."),
    option("--repack/--no-repack", default=True, help="Let llama.cpp keep weights in its faster layout."),
    option(
        "-t", "--threads", type=int, help="Threads for one token.  [default: measured, or the fast cores]"
    ),
    option(
        "--threads-batch", type=int, help="Threads for several tokens.  [default: measured, or as --threads]"
    ),
]


@click.command()
@click.argument("model", default=DEFAULT_MODEL)
@options(_OPTIONS)
@click.option(
    "--thorough", is_flag=True, help="Take minutes: widths to 64, a deep context, numbers of threads."
)
@click.option("--show", is_flag=True, help="Show what is stored; measure nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the table.")
@click.pass_context
def command(
    context: click.Context, /, model: str, thorough: bool, show: bool, as_json: bool, **values: Any
) -> None:
    """Measure how long MODEL takes to decode 1, 2, 3 ... tokens at once on this machine.

    The figures decide how far homespec speculates, and on how many threads it runs where there is a choice.
    They hold for one model file, number of threads, build of llama.cpp and processor; --show says what is
    stored, and what has changed since.

    \b
    homespec calibrate qwen2.5-coder-1.5b-instruct
    homespec calibrate qwen2.5-coder-1.5b-instruct --show
    """  # noqa: D301 - \b keeps click from joining the lines
    names = {parameter.name or "" for parameter in context.command.params}
    check_keys("calibrate", names, context.default_map)
    from homespec.calibration.measure import QUICK, THOROUGH
    from homespec.engine.calibrating import stored_calibrations
    from homespec.engine.preparing import prepare

    form = THOROUGH if thorough else QUICK
    usual = {"draft_length": max(form.widths) - 1, "prefer": "context", "memory": None}
    preparation = prepare(parse_settings(model, {**usual, **values}))
    start = time.perf_counter()
    found = stored_calibrations(preparation) if show else _measure(preparation, form)
    if as_json:
        click.echo(json.dumps(_as_json(preparation, found, time.perf_counter() - start)))
    else:
        _show(preparation, found)


def _measure(preparation: Preparation, form: Form) -> list[Calibration | None]:
    from homespec.engine.calibrating import measure_calibrations
    from homespec.engine.opening import open_models
    from homespec.runtime.binding import AbortFlag
    from homespec.runtime.interrupt import abort_on_interrupt

    _warn_of_load()
    abort = AbortFlag()
    opened = open_models(preparation, abort)
    try:
        if opened.plan.reason == "cannot_roll_back":
            raise ConfigError(
                f"There is nothing to calibrate: {opened.plan.explanation}",
                hint="Such a model is decoded plainly; take another one to speculate.",
            )
        with abort_on_interrupt(abort), shown_share("decoding") as progress:
            return [*measure_calibrations(preparation, opened, form, progress)]
    except DecodeAbortedError:
        raise click.Abort from None
    finally:
        opened.close()


def _warn_of_load() -> None:
    from homespec.telemetry.machine import is_busy

    if is_busy():
        load, num_cpus = os.getloadavg()[0], os.cpu_count()
        click.echo(
            f"Other programs are running (load {load:.1f} on {num_cpus} CPUs): the figures may be too high.",
            err=True,
        )


def _as_json(
    preparation: Preparation,
    found: list[Calibration | None],
    seconds: float,
) -> dict[str, Any]:
    from homespec.calibration.store import stale_calibrations
    from homespec.engine.calibrating import calibration_keys, thread_comparison

    threads = thread_comparison(preparation)
    stored = [calibration.to_json() if calibration else None for calibration in found]
    key = calibration_keys(preparation)[0]
    return {
        "target": stored[0],
        "draft": stored[1] if len(stored) > 1 else None,
        "stale": [
            {"measured_at": other.measured_at, "differences": key.differences(other.key)}
            for other in stale_calibrations(key)
        ],
        "threads": threads.to_json() if threads else None,
        "seconds": seconds,
    }


def _show(preparation: Preparation, found: list[Calibration | None]) -> None:
    from rich.console import Console

    from homespec.engine.calibrating import thread_comparison

    console = Console(highlight=False, soft_wrap=True)
    target, *others = found
    if target is None or target.target is None:
        _show_absence(preparation)
        return
    key = target.key
    console.print(f"[bold]{target.file_name}[/] {target.quantization}, {_age(target)}")
    console.print(f"{key.num_threads} threads ({key.num_batch_threads} for batches), KV cache {key.kv_type}")
    console.print(f"{key.cpu}, {key.cpu_limits}")
    click.echo(click.wrap_text(key.build, width=79))
    console.print(_table(target.target))
    _show_summary(target.target)
    for calibration in others:
        if calibration is not None and calibration.drafter is not None:
            drafter = calibration.drafter
            share = drafter.seconds_per_token / target.target.curve.shallow_seconds[0]
            click.echo(
                f"Draft model {calibration.file_name}: {1000 * drafter.seconds_per_token:.1f} ms a token, "
                f"{share:.2f}\nof the target's; {1000 * drafter.catch_up_seconds:.1f} ms for two."
            )
    if (threads := thread_comparison(preparation)) is not None:
        _show_threads(threads)


def _show_absence(preparation: Preparation) -> None:
    from homespec.calibration.store import stale_calibrations
    from homespec.engine.calibrating import calibration_keys

    key = calibration_keys(preparation)[0]
    name = preparation.target.model.name
    click.echo(f"Nothing is stored for {name} as it would run now.")
    for other in stale_calibrations(key):
        click.echo(f"What was {_age(other)} was for something else:")
        for difference in key.differences(other.key):
            click.echo(click.wrap_text(difference, 79, initial_indent="  ", subsequent_indent="    "))
    click.echo(f"To measure: homespec calibrate {name}")


def _age(calibration: Calibration) -> str:
    measured = time.strftime("%Y-%m-%d %H:%M", time.localtime(calibration.measured_at))
    return f"measured {measured}{' thoroughly' if calibration.thorough else ''}"


def _table(costs: TargetCosts) -> Table:
    from rich import box
    from rich.table import Table

    curve = costs.curve
    near = curve.depths_tokens[0]
    depths = sorted(set(curve.depths_tokens))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for header in ("width", *(f"ms at\n{depth:,}" for depth in depths), "t(w)\n/t(1)", "best\ngain"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("if every draft\ntoken is right", no_wrap=True, min_width=_BAR_WIDTH)
    for depth in depths:
        title = "same rows" if depth == near else ""
        table.add_column(f"{title}\nat {depth:,}", justify="right", no_wrap=True)
    gains = _gains(costs)
    for width, gain in gains.items():
        bar = "#" * max(1, round(_BAR_WIDTH * gain / max(gains.values())))
        table.add_row(
            str(width),
            *(f"{1000 * curve.seconds(width, depth):.1f}" for depth in depths),
            f"{width / gain:.2f}",
            f"{gain:.2f}",
            f"[bold green]{bar}[/]" if gain == max(gains.values()) else f"[green]{bar}[/]",
            *(_equality(costs, width, depth) for depth in depths),
        )
    return table


def _gains(costs: TargetCosts) -> dict[int, float]:
    """Width -> speed relative to plain decoding if every draft token were accepted and drafting were free."""
    near = costs.curve.depths_tokens[0]
    single = costs.curve.seconds(1, near)
    return {width: width * single / costs.curve.seconds(width, near) for width in costs.curve.widths}


def _equality(costs: TargetCosts, width: int, depth_tokens: int) -> str:
    """`yes`, or the largest total variation; a question mark where it was not compared."""
    if width == 1:
        return "yes"
    for result in costs.width_equality:
        if (result.width, result.depth_tokens) == (width, depth_tokens):
            return "yes" if result.bitwise else f"{result.max_total_variation:.0e}"
    return "?"


def _show_summary(costs: TargetCosts) -> None:
    from homespec.calibration.costs import FIRST_BLOCK_TOKENS

    gain, width = max((gain, width) for width, gain in _gains(costs).items())
    click.echo(
        f"Plain: {1 / costs.curve.shallow_seconds[0]:.1f} tokens/s; "
        f"prompts: {costs.prefill_tokens_per_second:.0f} tokens/s. Drafts of {width - 1} tokens that\n"
        f"are always right would give {gain:.2f} times that."
    )
    near, far = (_ranges(costs.equal_widths(end)) for end in (FIRST_BLOCK_TOKENS, 2 * FIRST_BLOCK_TOKENS))
    click.echo(
        f"Widths proven to change nothing: {near}\nin the first {FIRST_BLOCK_TOKENS} tokens, {far} behind."
    )


def _ranges(numbers: Iterable[int]) -> str:
    """`1-3, 8` for 1, 2, 3 and 8."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in ranges)


def _show_threads(threads: ThreadComparison) -> None:
    click.echo("threads   ms for 1   ms for 5")
    for times in threads.times:
        click.echo(
            f"{times.num_threads:7} {1000 * times.single_seconds:10.1f} {1000 * times.batch_seconds:10.1f}"
        )
    click.echo(click.wrap_text(f"Threads, {threads.reason}.", 79))
