"""What to say where there is no model yet."""

from __future__ import annotations

from collections.abc import Iterable

from homespec.catalog.entries import ModelEntry
from homespec.units import format_bytes

# Beside its weights, a model of the catalogue needs about this for a context of 4,096 tokens, buffers and
# Python. `homespec plan` knows exactly once the file is there.
_BESIDE_WEIGHTS_BYTES = 400_000_000


def first_run_lines(default: str, entries: Iterable[ModelEntry], headroom_bytes: int) -> list[str]:
    """Three lines: what is missing, what fits, and the command that gets it.

    Args:
        default: the model to begin with.
        entries: of the catalogue.
        headroom_bytes: of memory that models may use here.
    """
    targets = sorted(
        (entry for entry in entries if entry.role == "target"), key=lambda entry: entry.size_bytes
    )
    fitting = [entry for entry in targets if entry.size_bytes + _BESIDE_WEIGHTS_BYTES <= headroom_bytes]
    sizes = (
        ", ".join(f"{entry.name} ({format_bytes(entry.size_bytes)})" for entry in fitting)
        or "none in the list"
    )
    smallest = targets[0].name if targets else default
    names = {entry.name for entry in fitting}
    return [
        "There is no model on this machine yet: a chat needs one, a file that is fetched once.",
        f"What fits into the {format_bytes(headroom_bytes)} of memory that can be had here: {sizes}.",
        f"Get one: homespec models pull {default if default in names else smallest}",
    ]
