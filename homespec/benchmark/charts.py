"""The plots of a target: what each of them shows and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from homespec.benchmark import plots
from homespec.benchmark.cells import AUTO, BASELINE, Comparison, TargetFigures
from homespec.benchmark.figures import (
    PHASES,
    acceptance_by_position,
    lines_of,
    most,
    speed,
    time_shares,
    width_shares,
)
from homespec.benchmark.palette import INK, MUTED, SLOTS, SURFACE, ArmStyle, arm_styles
from homespec.benchmark.plots import Plot, Sheet, short
from homespec.benchmark.results import RunLine
from homespec.units import format_bytes

_ROW_INCHES = 0.165
# Between two groups of rows.
_GAP_ROWS = 0.4
# Positions where fewer tokens were drafted are drawn hollow: their rates are guesses.
_FEW_DRAFTED = 30


class Missing(NamedTuple):
    """A plot that could not be drawn, and why."""

    title: str
    reason: str


class _Drawn(NamedTuple):
    sheet: Sheet
    caption: str


def draw_plots(target: TargetFigures, directory: Path, stem: str) -> list[Plot | Missing]:
    """All plots of a target, as DIRECTORY/STEM-*.svg and .png.

    Raises:
        ConfigError: matplotlib is not installed.
        OSError: a file cannot be written.
    """
    plots.require_matplotlib()
    finished: list[Plot | Missing] = []
    with plots.style():
        for name, draw in _PLOTS.items():
            drawn = draw(target)
            if isinstance(drawn, _Drawn):
                finished.append(drawn.sheet.save(directory, f"{stem}-{name}", drawn.caption))
            else:
                finished.append(drawn)
    return finished


def _speedup(target: TargetFigures) -> _Drawn | Missing:
    title = f"Speedup by scenario, {short(target.name)}"
    arms = [arm for arm in target.arms if arm != BASELINE and target.runs_of(arm)]
    if not target.overall:
        return Missing(title, "no reply could be compared with a plain one.")
    rows = _speedup_rows(target, arms)
    heights = [
        number + _GAP_ROWS * sum(not row.arm for row in rows[: number + 1]) for number, row in enumerate(rows)
    ]
    sheet = Sheet(title, [_ROW_INCHES * (heights[-1] + 2)])
    (axes,) = sheet.axes
    styles = arm_styles(target.arms)
    for height, row in zip(heights, rows, strict=True):
        if row.comparison is not None:
            _draw_comparison(sheet, height, row, row.comparison, styles[row.arm])
        elif row.note:
            axes.text(
                0.01,
                height,
                row.note,
                transform=axes.get_yaxis_transform(),
                color=MUTED.light,
                backgroundcolor=SURFACE.light,
                size=7,
                va="center",
            )
    axes.axvline(1, color=INK.light, linewidth=1, zorder=1)
    axes.set_ylim(heights[-1] + 0.7, heights[0] - 0.6)
    axes.set_yticks(heights, [row.label for row in rows])
    for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("normal" if row.arm else "bold")
    axes.tick_params(labeltop=True)
    axes.grid(axis="x")
    axes.margins(x=0.08)
    axes.set_xlabel("speed of whole replies relative to plain decoding (1 = as fast; more is faster)")
    return _Drawn(
        sheet,
        "One point per arm: the tokens per second of whole replies (prompt, drafting, everything) over those "
        "of plain decoding on the same prompts. The bar is the 90% interval that other prompts of the kind "
        "would have given; where it crosses the line at 1, this run does not tell which is faster.",
    )


class _Row(NamedTuple):
    label: str
    arm: str = ""
    comparison: Comparison | None = None
    note: str = ""


def _speedup_rows(target: TargetFigures, arms: Sequence[str]) -> list[_Row]:
    """A heading, and a row per arm, for each scenario and for all together."""
    rows = []
    for scenario in target.scenarios:
        rows.append(_Row(short(scenario)))
        for arm in arms:
            cell = target.cells[scenario, arm]
            note = f"no speedup: {cell.refusal.text}" if cell.refusal else ""
            rows.append(_Row(short(arm), arm, cell.whole, short(note, 80)))
    if len(target.scenarios) > 1:
        rows.append(_Row("all scenarios"))
        for arm in arms:
            together = target.overall.get(arm)
            left_out = len(target.scenarios) - len(together.scenarios) if together else 0
            label = f"{short(arm)} (without {left_out})" if left_out else short(arm)
            rows.append(_Row(label, arm, together, "" if together else "no speedup in any scenario"))
    return rows


def _draw_comparison(sheet: Sheet, height: float, row: _Row, comparison: Comparison, style: ArmStyle) -> None:
    (axes,) = sheet.axes
    text = f"{comparison.value:.2f}"
    if comparison.interval is not None:
        low, high = comparison.interval
        axes.plot(
            [low, high],
            [height, height],
            color=style.color.light,
            linewidth=1.8,
            gid=sheet.mark(f"{row.label}: 90% interval {low:.3f} to {high:.3f}", comparison.lines),
        )
        text += f"  ({low:.2f} to {high:.2f})"
    axes.plot(
        [comparison.value],
        [height],
        style.marker,
        color=style.color.light,
        markersize=5.5,
        gid=sheet.mark(f"{row.label}: {comparison.value:.3f} times plain", comparison.lines),
    )
    _write(sheet, height, text, f"{row.label}: {text}", comparison.lines)


def _write(sheet: Sheet, height: float, text: str, said: str, lines: Sequence[int]) -> None:
    """A number to the right of a row."""
    (axes,) = sheet.axes
    place = axes.get_yaxis_transform()
    axes.text(1.01, height, text, transform=place, size=7.5, va="center", gid=sheet.mark(said, lines))


def _cost_curve(target: TargetFigures) -> _Drawn | Missing:
    title = f"What a decode of several tokens costs, {short(target.name)}"
    curve = target.line.cost_curve() if target.line else None
    if target.line is None or curve is None:
        return Missing(title, "the cost curve of this target was not measured.")
    shares = width_shares(target.runs_of(AUTO))
    sheet = Sheet(title, [2.3, 1.1] if shares else [2.3])
    axes = sheet.axes[0]
    last = max([*curve.widths, *shares])
    series = {curve.depths_tokens[0]: curve.shallow_seconds, curve.depths_tokens[1]: curve.deep_seconds}
    for (depth, seconds), color in zip(series.items(), SLOTS[:2], strict=False):
        relative = [value / seconds[0] for value in seconds]
        axes.plot(curve.widths, relative, color=color.light, linewidth=1.6)
        for width, value, absolute in zip(curve.widths, relative, seconds, strict=True):
            text = f"width {width} behind {depth} tokens: {value:.3f} times width 1, {1000 * absolute:.2f} ms"
            gid = sheet.mark(text, [target.line.line])
            axes.plot([width], [value], "o", color=color.light, markersize=4, gid=gid)
        axes.annotate(
            f"behind {depth:,} tokens",
            (curve.widths[-1], relative[-1]),
            xytext=(6, 0),
            textcoords="offset points",
            color=color.light,
            va="center",
            annotation_clip=False,
            gid=sheet.mark(f"behind {depth:,} tokens", [target.line.line]),
        )
    top = 1.12 * max(value / seconds[0] for seconds in series.values() for value in seconds)
    axes.plot([1, last], [1, last], color=MUTED.light, linewidth=0.8, dashes=(2, 2))
    end = min(last, top)
    axes.annotate(
        "one by one", (end, end), xytext=(4, -8), textcoords="offset points", color=MUTED.light, size=7.5
    )
    axes.set_ylim(0, max(top, 2))
    axes.set_ylabel("t(width) / t(1)")
    axes.grid(axis="y")
    if shares:
        _draw_widths(sheet, target)
    sheet.axes[-1].set_xlim(0.4, last + 0.6)
    sheet.axes[-1].set_xticks(_whole_ticks(last))
    sheet.axes[-1].set_xlabel("width: tokens in one decode (draft length + 1)")
    chosen = (
        "Below, how often auto decoded with each width."
        if shares
        else "The file holds no reply of auto, so the widths that it would choose are not known."
    )
    return _Drawn(
        sheet,
        "Seconds of one decode of several tokens over those of one token, as calibration measured them. A "
        "draft pays when the tokens it gains outweigh this: on the dashed line they would cost as much as "
        "one by one. " + chosen,
    )


def _draw_widths(sheet: Sheet, target: TargetFigures) -> None:
    axes = sheet.axes[1]
    color = arm_styles(target.arms)[AUTO].color.light
    for width, share in width_shares(target.runs_of(AUTO)).items():
        value = share.value or 0.0
        gid = sheet.mark(f"auto: {value:.1%} of its decodes had width {width}", share.lines)
        (bar,) = axes.bar([width], [100 * value], width=0.7, color=color)
        bar.set_gid(gid)
    axes.set_ylabel("% of auto's\ndecodes")
    axes.grid(axis="y")


def _where_time_goes(target: TargetFigures) -> _Drawn | Missing:
    title = f"Where the time goes, {short(target.name)}"
    rows = [(arm, runs) for arm in target.arms if (runs := target.runs_of(arm)) and time_shares(runs)]
    if not rows:
        return Missing(title, "there is no measured reply.")
    sheet = Sheet(title, [0.3 * len(rows) + 0.25])
    (axes,) = sheet.axes
    handles = [axes.barh([0], [0], color=color.light) for color in SLOTS]
    for height, (arm, runs) in enumerate(rows):
        left = 0.0
        for (phase, share), color in zip(time_shares(runs).items(), SLOTS, strict=True):
            percent = 100 * share
            gid = sheet.mark(f"{arm}: {percent:.1f}% {phase}", lines_of(runs))
            (bar,) = axes.barh(
                [height],
                [percent],
                left=left,
                height=0.72,
                color=color.light,
                edgecolor=SURFACE.light,
                linewidth=1,
            )
            bar.set_gid(gid)
            if percent >= 7:
                axes.text(
                    left + percent / 2,
                    height,
                    f"{percent:.0f}%",
                    color=SURFACE.light,
                    ha="center",
                    va="center",
                    size=7.5,
                    gid=sheet.mark(f"{arm}: {percent:.1f}% {phase}", lines_of(runs)),
                )
            left += percent
        pace = speed(runs, "whole").value
        label = f"{1000 / pace:.1f} ms per token" if pace else "no token"
        _write(sheet, height, label, f"{arm}: {label}", lines_of(runs))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [short(arm) for arm, _ in rows])
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of the seconds of whole replies, all scenarios together")
    sheet.legend(handles, PHASES, len(PHASES))
    return _Drawn(
        sheet,
        "prefill: decoding the prompt. draft: proposing tokens. verify: the target's decodes. sample: "
        "choosing tokens from logits. other: everything else. On the right, all of it per token of a reply.",
    )


def _acceptance(target: TargetFigures) -> _Drawn | Missing:
    title = f"Acceptance by position in the draft, {short(target.name)}"
    series = {
        arm: positions for arm in target.arms if (positions := acceptance_by_position(target.runs_of(arm)))
    }
    if not series:
        return Missing(title, "no arm drafted a token.")
    sheet = Sheet(title, [2.9])
    (axes,) = sheet.axes
    styles = arm_styles(target.arms)
    handles = []
    for arm, positions in series.items():
        color, marker, dashes = styles[arm]
        line: dict[str, Any] = {"color": color.light, "linewidth": 1.3, "dashes": dashes}
        axes.plot([p.position for p in positions], [100 * p.rate for p in positions], **line)
        handles += axes.plot([], [], marker=marker, markersize=4.5, **line)
        for position, rate, num_drafted, lines in positions:
            text = f"{arm}, position {position}: {rate:.1%} of {num_drafted} accepted"
            axes.plot(
                [position],
                [100 * rate],
                marker,
                color=color.light,
                markerfacecolor=color.light if num_drafted >= _FEW_DRAFTED else SURFACE.light,
                markersize=4.5,
                gid=sheet.mark(text, lines),
            )
    axes.set_ylim(-3, 103)
    axes.set_xticks(_whole_ticks(max(positions[-1].position for positions in series.values())))
    axes.margins(x=0.03)
    axes.grid(axis="y")
    axes.set_xlabel("position in the draft (1 = first token)")
    axes.set_ylabel("% of drafted tokens accepted")
    sheet.legend(handles, list(series), 3)
    return _Drawn(
        sheet,
        "Of the tokens that were drafted at a position, how many the target accepted; a token counts as "
        f"accepted only if all before it were. Hollow points: fewer than {_FEW_DRAFTED} drafted tokens.",
    )


def _memory(target: TargetFigures) -> _Drawn | Missing:
    title = f"Memory against plan, {short(target.name)}"
    rows = [(arm, _fullest(runs)) for arm in target.arms if (runs := target.runs_of(arm))]
    if not any(_resident_bytes(run) for _, run in rows):
        return Missing(title, "the memory of no reply is known.")
    sheet = Sheet(title, [0.3 * len(rows) + 0.25])
    (axes,) = sheet.axes
    handles: list[Any] = []
    for height, (arm, run) in enumerate(rows):
        left = 0.0
        kinds = (("anonymous", run.rss_anon_bytes), ("file", run.rss_file_bytes))
        for (kind, num_bytes), color in zip(kinds, (SLOTS[2], SLOTS[0]), strict=True):
            gid = sheet.mark(f"{arm}: {format_bytes(num_bytes)} {kind}", [run.line])
            bars = axes.barh(
                [height],
                [num_bytes / 1e9],
                left=left,
                height=0.72,
                color=color.light,
                edgecolor=SURFACE.light,
            )
            bars[0].set_gid(gid)
            handles += [bars] if not height else []
            left += num_bytes / 1e9
        peak = most(target.runs_of(arm), lambda run: run.peak_rss_bytes)
        gid = sheet.mark(f"{arm}: peak {format_bytes(peak.value or 0)}", peak.lines)
        handles += axes.plot([(peak.value or 0) / 1e9], [height], "|", color=INK.light, markersize=9, gid=gid)
        label = format_bytes(_resident_bytes(run))
        _write(sheet, height, label, f"{arm}: {label} resident", [run.line])
    labels = ["anonymous", "file", "peak during it"]
    handles = handles[: len(labels)]
    if target.line is not None and target.line.planned_bytes is not None:
        planned = target.line.planned_bytes
        gid = sheet.mark(f"planned {format_bytes(planned)}", [target.line.line])
        handles.append(axes.axvline(planned / 1e9, color=INK.light, linewidth=1.2, dashes=(4, 2), gid=gid))
        labels.append(f"planned, {format_bytes(planned)}")
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [short(arm) for arm, _ in rows])
    axes.set_xlim(left=0)
    axes.margins(x=0.05)
    axes.set_xlabel("resident memory of the process behind the fullest reply, GB")
    sheet.legend(handles, labels, len(labels))
    return _Drawn(
        sheet,
        "Anonymous memory is the KV cache, buffers, repacked weights and Python; file memory is resident "
        "pages of mapped weights and libraries. The stroke is the highest while a reply was made (where the "
        "system cannot tell that, since the process started).",
    )


def _fullest(runs: Iterable[RunLine]) -> RunLine:
    return max(runs, key=_resident_bytes)


def _whole_ticks(last: int) -> list[int]:
    """About a dozen numbers from 1 on."""
    step = -(-last // 12)
    return [1, *range(max(2, step), last + 1, step)]


def _resident_bytes(run: RunLine) -> int:
    return run.rss_anon_bytes + run.rss_file_bytes


_PLOTS: dict[str, Callable[[TargetFigures], _Drawn | Missing]] = {
    "speedup": _speedup,
    "cost-curve": _cost_curve,
    "time": _where_time_goes,
    "acceptance": _acceptance,
    "memory": _memory,
}
