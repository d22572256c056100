"""Build and sensors, on recorded trees."""

from __future__ import annotations

from pathlib import Path

from homespec.runtime.build import unsupported_features
from homespec.runtime.cpuinfo import cpu_features
from homespec.telemetry.thermal import read_temperatures, read_throttling

INFO = "CPU : SSE3 = 1 | AVX = 1 | AVX2 = 1 | AVX512 = 1 | AVX512_VBMI = 1 | LLAMAFILE = 1 | OPENMP = 1 | "


def test_a_build_for_another_cpu_is_noticed() -> None:
    assert unsupported_features(INFO, {"avx", "avx2", "avx512f", "avx512vbmi"}) == []
    assert unsupported_features(INFO, {"avx", "avx2"}) == ["AVX512", "AVX512_VBMI"]
    assert unsupported_features("CPU : NEON = 1 | DOTPROD = 1 | ", {"asimd"}) == ["DOTPROD"]


def test_an_unknown_cpu_is_given_the_benefit_of_the_doubt() -> None:
    assert unsupported_features(INFO, frozenset()) == []


def test_this_build_is_for_this_cpu() -> None:
    from homespec.runtime.binding import system_info

    assert unsupported_features(system_info(), cpu_features()) == []


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_temperatures_of_a_pi(tmp_path: Path) -> None:
    write(tmp_path / "sys/class/thermal/thermal_zone0/temp", "61322\n")
    write(tmp_path / "sys/class/thermal/thermal_zone0/type", "cpu-thermal\n")
    assert read_temperatures(tmp_path) == {"cpu-thermal": 61.322}


def test_throttling_of_a_pi(tmp_path: Path) -> None:
    file = tmp_path / "sys/devices/platform/soc/soc:firmware/get_throttled"
    write(file, "50005\n")
    assert read_throttling(tmp_path) == "undervoltage, throttled"
    write(file, "0\n")
    assert read_throttling(tmp_path) == "none"


def test_throttling_of_a_pc(tmp_path: Path) -> None:
    for cpu, count in enumerate((2, 3)):
        path = f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count"
        write(tmp_path / path, f"{count}\n")
    assert read_throttling(tmp_path) == "5 times since the machine started"


def test_a_machine_that_does_not_tell(tmp_path: Path) -> None:
    assert read_temperatures(tmp_path) == {}
    assert read_throttling(tmp_path) is None
