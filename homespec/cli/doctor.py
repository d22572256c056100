"""`homespec doctor`: what homespec sees of this machine, and what it would do with it."""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path

import click

from homespec.units import format_bytes


@click.command()
def command() -> None:
    """Show CPU, threads, memory, the llama.cpp build and the models, as homespec sees them."""
    for title, lines in (
        ("CPU", _cpu()),
        ("Memory", _memory()),
        ("Temperature", _temperature()),
        ("llama.cpp", _llama_cpp()),
        ("Models", _models()),
    ):
        click.echo(click.style(title, bold=True))
        for line in lines:
            click.echo(f"  {line}")


def _cpu(root: Path = Path("/")) -> list[str]:
    from homespec.runtime.cgroups import read_text
    from homespec.telemetry.machine import cpu_governor

    info = read_text(root / "proc/cpuinfo") or ""
    names = [line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")]
    model = read_text(root / "proc/device-tree/model")  # what a Raspberry Pi calls itself
    governor = cpu_governor(root)
    name = (model or "").strip("\0") or next(iter(names), platform.machine())
    lines = [
        f"{name}, {os.cpu_count()} CPUs",
        *_threads(),
        f"load: {' '.join(f'{load:.1f}' for load in os.getloadavg())}",
    ]
    return [*lines, f"governor: {governor}"] if governor else lines


def _threads() -> list[str]:
    from homespec.calibration.fingerprint import fingerprint
    from homespec.calibration.threads import load_comparison
    from homespec.catalog.store import installed
    from homespec.runtime.threads import choose_threads

    choice = choose_threads()
    lines = [f"threads: {choice.num_threads} ({choice.reason})"]
    for model in installed():
        comparison = load_comparison(fingerprint(model.path))
        if comparison is not None:
            single, batch = comparison.choice
            lines.append(f"threads for {model.name}: {single}, in batches {batch} ({comparison.reason})")
    return lines


def _memory() -> list[str]:
    from homespec.telemetry.machine import memory_pressure_percent, read_memory

    memory = read_memory()
    lines = [
        f"{b.source}: {format_bytes(b.available_bytes)} available of {format_bytes(b.limit_bytes)}"
        for b in memory.bounds
    ]
    lines.append(f"headroom for models: {format_bytes(memory.headroom_bytes())}")
    if memory.swap_bytes:
        kind = "zram, compressed memory" if memory.zram_bytes else "not counted"
        used = memory.swap_bytes - memory.swap_free_bytes
        lines.append(f"swap: {format_bytes(used)} used of {format_bytes(memory.swap_bytes)} ({kind})")
    else:
        lines.append("swap: none")
    pressure = memory_pressure_percent()
    recorded = "not recorded" if pressure is None else f"{pressure:.0f}% of the last 10 s"
    return [*lines, f"pressure: {recorded}"]


def _temperature() -> list[str]:
    from homespec.telemetry.thermal import read_temperatures, read_throttling

    lines = [f"{name}: {celsius:.0f} °C" for name, celsius in read_temperatures().items()]
    throttling = read_throttling()
    if throttling is not None:
        lines.append(f"throttling: {throttling}")
    return lines or ["not told by this system"]


def _llama_cpp() -> list[str]:
    import importlib.metadata

    from homespec.runtime.binding import system_info
    from homespec.runtime.build import unsupported_features
    from homespec.runtime.compiler import build_compiler
    from homespec.runtime.cpuinfo import cpu_features

    info = system_info()
    used = [part.partition("=")[0].split(":")[-1].strip() for part in info.split("|") if "= 1" in part]
    compiler = build_compiler()
    lines = [
        f"llama-cpp-python {importlib.metadata.version('llama-cpp-python')}",
        f"compiled by {compiler or 'an unknown compiler'}",
        f"uses {', '.join(used)}",
    ]
    missing = unsupported_features(info, cpu_features())
    if missing:
        lines.append(f"this CPU lacks {', '.join(missing)}: run scripts/quickstart, which builds it anew")
    return [*lines, *_better_build(compiler)]


def _better_build(compiler: str) -> list[str]:
    """A hint where another compiler's code was measured to be faster for the models at hand."""
    from homespec.catalog.facts import model_facts
    from homespec.catalog.gguf_header import read_header
    from homespec.catalog.store import installed
    from homespec.errors import ModelError

    if platform.machine() != "x86_64" or "GCC" not in compiler:
        return []
    gaining: list[str] = []
    for model in installed():
        with contextlib.suppress(ModelError):
            if model_facts(read_header(model.path)).quantization.endswith("_K"):
                gaining.append(model.name)
    if not gaining:
        return []
    return [
        f"clang's code would check drafts of {', '.join(gaining)} 10 to 20% faster (bench/builds.py):",
        "sudo apt install clang-16 libomp-16-dev, remove .venv, and run scripts/quickstart",
    ]


def _models() -> list[str]:
    from homespec.catalog.store import installed, models_directory
    from homespec.runtime.residency import resident_bytes

    lines = [str(models_directory())]
    for model in installed():
        resident = resident_bytes(model.path)
        share = "" if resident is None else f", {format_bytes(resident)} in memory now"
        lines.append(f"{model.name}: {format_bytes(model.path.stat().st_size)}{share}")
    return lines if len(lines) > 1 else [*lines, "none; get one: homespec models pull smollm2-135m-instruct"]
