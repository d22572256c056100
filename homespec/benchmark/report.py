"""`--report DIR`: a results file as one page that needs nothing else, and its plots as files."""

from __future__ import annotations

import shutil
from pathlib import Path

from homespec.benchmark import page, plots
from homespec.benchmark.cells import compare_targets
from homespec.benchmark.charts import draw_plots
from homespec.benchmark.results import read_results
from homespec.errors import ConfigError

PAGE = "index.html"
RESULTS_FILE = "results.jsonl"


def write_report(jsonl_path: Path, directory: Path) -> Path:
    """Makes a page of a results file.

    Args:
        jsonl_path: what `homespec bench` wrote; a last line that was cut off is tolerated.
        directory: gets index.html, the plots, and the results, to which the page's numbers refer.

    Returns:
        Where the page is.

    Raises:
        ConfigError: matplotlib is missing; the file is damaged or none of homespec's; the directory cannot be
            written to.
    """
    plots.require_matplotlib()
    results = read_results(jsonl_path)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        copy = directory / RESULTS_FILE
        if not (copy.exists() and copy.samefile(jsonl_path)):
            shutil.copyfile(jsonl_path, copy)
        targets = [
            (target, draw_plots(target, directory, f"target-{number}"))
            for number, target in enumerate(compare_targets(results), start=1)
        ]
        path = directory / PAGE
        # JSON may hold halves of surrogate pairs, which have no UTF-8.
        path.write_text(page.render(results, targets, RESULTS_FILE), encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(
            f"The report cannot be written to {directory}: {error.strerror}.",
            hint="Name a directory that can be written to.",
        ) from error
    return path
