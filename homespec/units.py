"""Numbers as people read them. Inside homespec everything is bytes, seconds and tokens."""

from __future__ import annotations

import re

from homespec.errors import ConfigError

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def format_bytes(num_bytes: float) -> str:
    """Decimal units with three significant digits at most: 98.4 MB, 1.12 GB."""
    value = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def parse_bytes(text: str) -> int:
    """Reads `4GiB`, `4G` (binary, as tools for memory do), `300MB` (decimal) or a plain number of bytes.

    Raises:
        ConfigError: the text is not a size.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ConfigError(f"{text!r} is not a size.", hint="Write it like 4GiB, 512MiB or 300MB.")
    number, prefix, binary = match.groups()
    decimal = not binary and text.strip().lower().endswith("b")
    return int(float(number) * (1000 if decimal else 1024) ** _POWERS[prefix.lower()])


def format_seconds(seconds: float) -> str:
    """0.21 s, 12.3 s, 4 min 05 s, 2 h 10 min."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
