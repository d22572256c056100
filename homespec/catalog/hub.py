"""Fetches a model from a Hugging Face repository, resuming where an earlier attempt ended.

`HF_ENDPOINT`, `HF_TOKEN`, `HF_HUB_OFFLINE` and the user's cache are respected, since huggingface_hub does the
talking. `hf_hub_download` itself is not used: it throws an unfinished file away, and a home line that drops
near the end of a gigabyte should not have to begin again.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from homespec.catalog.check import Progress
from homespec.catalog.entries import HubSource, ModelEntry
from homespec.catalog.partial import SourceError

if TYPE_CHECKING:
    from collections.abc import Buffer

_log = logging.getLogger(__name__)

_INCOMPLETE = "hub"
_SHA256 = re.compile(r"[0-9a-f]{64}")


def needed_bytes(entry: ModelEntry, workplace: Path) -> int:
    """How much more room the disk must have."""
    incomplete = workplace / _INCOMPLETE
    have_bytes = incomplete.stat().st_size if incomplete.exists() else 0
    return max(entry.size_bytes - have_bytes, 0)


def fetch(source: HubSource, entry: ModelEntry, workplace: Path, progress: Progress) -> Path:
    """Fetches the file, or copies it from the user's Hugging Face cache.

    Args:
        source: repository, file and revision.
        entry: what the catalogue promises; an answer that promises something else is not fetched.
        workplace: the model's partial directory, whose lock the caller holds.
        progress: called with bytes done and bytes in all.

    Raises:
        SourceError: it could not be had.
        OSError: the disk is full, or cannot be written.
    """
    # Imported here: it costs a quarter of a second, and most commands do not download.
    from huggingface_hub import try_to_load_from_cache

    incomplete = workplace / _INCOMPLETE
    cached = try_to_load_from_cache(source.repo, source.file, revision=source.revision)
    if isinstance(cached, str) and Path(cached).stat().st_size == entry.size_bytes:
        shutil.copyfile(cached, incomplete)
        return incomplete
    while True:
        before_bytes = incomplete.stat().st_size if incomplete.exists() else 0
        try:
            _resume(source, entry, incomplete, progress)
        except SourceError:
            raise
        # The HTTP library behind huggingface_hub, and with it the errors, depends on the version.
        except Exception as error:
            if isinstance(error, OSError) and error.errno is not None and error.filename is None:
                _log.debug("operating system error while fetching", exc_info=True)
            if not incomplete.exists() or incomplete.stat().st_size <= before_bytes:
                raise _explained(error, source) from error
            _log.debug("the connection broke; resuming", exc_info=True)
        else:
            return incomplete
