"""Progress on stderr."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

import click


@contextlib.contextmanager
def shown_share(what: str) -> Iterator[Callable[[float], None]]:
    """A bar on stderr; gives a function that sets the share that is done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(f"  {what}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
        refresh_per_second=2,  # it takes time from the cores that are being measured
    ) as progress:
        task = progress.add_task(what, total=1.0)
        yield lambda share: progress.update(task, completed=share)


@contextlib.contextmanager
def told_once(what: str) -> Iterator[Callable[[float], None]]:
    """A function that is told the share that is done, and shows it on stderr from its first call on."""
    shown = ""
    on_terminal = sys.stderr.isatty()

    def tell(share: float) -> None:
        nonlocal shown
        line = _one_row(what, f": {share:4.0%} ") if on_terminal else f"{what} (up to 20 s).\n"
        if line != shown:
            click.echo(f"\r{line}" if on_terminal else line, nl=False, err=True)
        shown = line

    try:
        yield tell
    finally:
        if shown and on_terminal:
            click.echo("\r" + " " * len(shown) + "\r", nl=False, err=True)


def _one_row(text: str, end: str) -> str:
    """Both in one row, `text` cut if need be: of a line that wraps, only its last row could be drawn over."""
    from rich.console import Console

    room = Console(stderr=True).width - len(end) - 1
    return (text if len(text) <= room else text[: max(0, room - 3)] + "...") + end
