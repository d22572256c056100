"""The table of several files of results, as `run.py` writes them: a run in pieces, each with its own file.

    .venv/bin/python bench/peers/merge.py A.jsonl B.jsonl ... [--baseline 'llama.cpp plain'] [--table FILE]

Nothing is measured. What stands in more than one file is taken from the last one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.peers import table
from bench.peers.arms import BASELINE
from bench.peers.results import read_together
from homespec.errors import HomespecError


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table.

    Args:
        arguments: None for the process's own.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+", help="files of results")
    parser.add_argument("--baseline", default=BASELINE, help="the arm that the others are compared with")
    parser.add_argument("--table", type=Path, help="write the table there as well")
    options = parser.parse_args(arguments)
    try:
        text = table.markdown(read_together(options.files), options.baseline)
    except HomespecError as error:
        sys.stderr.write(f"Error: {error.message}\n" + (f"Hint: {error.hint}\n" if error.hint else ""))
        sys.exit(error.exit_code)
    if options.table:
        options.table.write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
