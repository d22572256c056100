"""What this process uses, as Linux tells it."""

from __future__ import annotations

import contextlib
import resource
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Memory of this process; zeros where the system does not tell.

    Attributes:
        peak_rss_bytes: VmHWM, file pages included.
        rss_anon_bytes: RssAnon: KV cache, buffers, repacked weights, Python.
        rss_file_bytes: RssFile: pages of mapped files (weights, libraries) that are resident.
    """

    peak_rss_bytes: int = 0
    rss_anon_bytes: int = 0
    rss_file_bytes: int = 0


def read_process_memory(root: Path = Path("/")) -> ProcessMemory:
    """Reads /proc/self/status below `root`."""
    try:
        lines = (root / "proc/self/status").read_text().splitlines()
    except OSError:
        return ProcessMemory()
    kib = {
        key: int(value.split()[0])
        for key, _, value in (line.partition(":") for line in lines)
        if key in {"VmHWM", "RssAnon", "RssFile"}
    }
    return ProcessMemory(
        peak_rss_bytes=kib.get("VmHWM", 0) * 1024,
        rss_anon_bytes=kib.get("RssAnon", 0) * 1024,
        rss_file_bytes=kib.get("RssFile", 0) * 1024,
    )


def count_major_faults() -> int:
    """Page faults of this process so far that had to read from disk (getrusage)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def reset_peak_memory() -> None:
    """Lets `peak_rss_bytes` begin anew at what this process uses now (proc(5), clear_refs)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
