"""Predicted against measured memory: the plan's figures and what the process really has after a reply.

    .venv/bin/python bench/memory.py [--quick]

Each row is a process of its own: `homespec run` on a prompt longer than a full batch, 256 tokens. Predicted
is the plan's figure for RssAnon + RssFile on a machine with plenty of memory; measured is both at the end.
Corrections that earlier loads taught are left aside, so that the formulas themselves are measured.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

SMALL, HALF, LARGE = "smollm2-135m-instruct", "qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct"
PAIRS = [(SMALL, "off"), (HALF, "off"), (LARGE, "off"), (LARGE, HALF)]
PROMPT = "Summarize this text. " + "The quick brown fox jumps over the lazy dog near the river bank. " * 60


@dataclass(frozen=True)
class Row:
    """One run."""

    target: str
    draft: str
    context_tokens: int
    kv_type: str
    repack: bool

    @property
    def flags(self) -> list[str]:
        """Those that plan and run share."""
        repack = "--repack" if self.repack else "--no-repack"
        return ["-d", self.draft, "-c", str(self.context_tokens), "--kv", self.kv_type, repack, "--json"]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="context 2048 and 64 tokens only")
    quick = parser.parse_args().quick
    contexts = [2048] if quick else [2048, 8192]
    header = f"{'target':28} {'draft':28} context KV    repack predicted measured  error"
    sys.stdout.write(header + "\n")
    for (target, draft), context, kv_type, repack in itertools.product(
        PAIRS, contexts, ["f16", "q8_0"], [True, False]
    ):
        row = Row(target, draft, context, kv_type, repack)
        predicted, measured = measure(row, num_tokens=64 if quick else 256)
        sys.stdout.write(
            f"{target:28} {draft:28} {context:7} {kv_type:5} {'yes' if repack else 'no':6} "
            f"{predicted / 1e6:6.0f} MB {measured / 1e6:5.0f} MB {predicted / measured - 1:+6.1%}\n"
        )
        sys.stdout.flush()


def measure(row: Row, num_tokens: int) -> tuple[int, int]:
    """Bytes predicted and measured."""
    with tempfile.TemporaryDirectory() as state:
        plan = homespec(state, "plan", row.target, *row.flags)
        flags = [*row.flags, "--temperature", "0", "--draft-min-confidence", "0", "-n", str(num_tokens)]
        stats = homespec(state, "run", "-m", row.target, *flags, PROMPT)["stats"]
    return plan["chosen"]["resident_bytes"], stats["rss_anon_bytes"] + stats["rss_file_bytes"]


def homespec(state: str, *arguments: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    command = [sys.executable, "-m", "homespec", *arguments]
    environment = {**os.environ, "HOMESPEC_STATE": state}
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    output: dict[str, Any] = json.loads(result.stdout)
    return output


if __name__ == "__main__":
    main()
