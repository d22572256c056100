"""How much of a file the page cache holds: mincore(2).

This uses ctypes outside `binding`, on libc alone: `homespec plan` shows residency and must not load
llama.cpp.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

# One byte per page comes back; a window of 1 GiB keeps that small.
_WINDOW_BYTES = 1 << 30


def resident_bytes(path: Path) -> int | None:
    """Bytes of the file that are in memory now; None where the system does not tell.

    Only files that this user owns or may write are answered truthfully since Linux 5.2; for others the kernel
    reports every page as resident.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    mincore = getattr(libc, "mincore", None)
    if mincore is None:
        return None
    mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
    resident_pages = 0
    try:
        with path.open("rb") as file:
            file_bytes = os.fstat(file.fileno()).st_size
            for offset in range(0, file_bytes, _WINDOW_BYTES):
                num_bytes = min(_WINDOW_BYTES, file_bytes - offset)
                # A private writable mapping, since only such a buffer gives its address to ctypes; it
                # copies nothing, as nothing is written.
                with mmap.mmap(file.fileno(), num_bytes, access=mmap.ACCESS_COPY, offset=offset) as window:
                    flags = ctypes.create_string_buffer(-(-num_bytes // mmap.PAGESIZE))
                    anchor = ctypes.c_char.from_buffer(window)
                    failed = mincore(ctypes.addressof(anchor), num_bytes, flags)
                    del anchor  # the window cannot be closed while it is referred to
                    if failed:
                        return None
                    # The lowest bit tells; the others are reserved.
                    resident_pages += sum(byte & 1 for byte in flags.raw)
    except (OSError, ValueError):
        return None
    return min(file_bytes, resident_pages * mmap.PAGESIZE)
