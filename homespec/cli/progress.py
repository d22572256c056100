"""Progress on stderr."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


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
