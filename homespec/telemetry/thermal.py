"""Temperature and throttling, where the system tells."""

from __future__ import annotations

from pathlib import Path

from homespec.runtime.cgroups import read_integer, read_text

# Bits of the Raspberry Pi firmware's get_throttled, as the kernel exposes it (raspberrypi-hwmon).
_PI_THROTTLED = "sys/devices/platform/soc/soc:firmware/get_throttled"
_PI_NOW = {0: "undervoltage", 1: "clock capped", 2: "throttled", 3: "soft temperature limit"}
_NOT_NOW, _SINCE_START = "none", "times since the machine started"


def read_temperatures(root: Path = Path("/")) -> dict[str, float]:
    """Sensor -> degrees Celsius, from /sys/class/thermal."""
    temperatures: dict[str, float] = {}
    for zone in sorted((root / "sys/class/thermal").glob("thermal_zone*")):
        millidegrees = read_integer(zone / "temp")
        if millidegrees is not None:
            name = (read_text(zone / "type") or zone.name).strip()
            temperatures[name] = millidegrees / 1000
    return temperatures


def read_throttling(root: Path = Path("/")) -> str | None:
    """What holds the CPU back now, or `none`; None where the system does not tell."""
    text = read_text(root / _PI_THROTTLED)
    if text is not None:
        flags = int(text.strip(), 16)
        return ", ".join(name for bit, name in _PI_NOW.items() if flags >> bit & 1) or _NOT_NOW
    counts = [
        read_integer(path)
        for path in (root / "sys/devices/system/cpu").glob("cpu*/thermal_throttle/core_throttle_count")
    ]
    known = [count for count in counts if count is not None]
    return f"{sum(known)} {_SINCE_START}" if known else None


def was_throttled(before: str | None, after: str | None) -> bool | None:
    """Whether the CPU was held back between two answers of `read_throttling`; None where nobody knows."""
    if before is None or after is None:
        return None
    return after != before or not (after == _NOT_NOW or after.endswith(_SINCE_START))
