"""Whether the installed llama.cpp was built for this CPU.

llama-cpp-python is compiled for the CPU that it is compiled on. A build that was carried to another machine
(a copied .venv, pip's cache on a moved disk) may use instructions that the new CPU lacks, and dies at the
first of them. `scripts/setup.sh` runs this module and builds anew when it fails: `python -m
homespec.runtime.build [clang]`, where a compiler is named if it was to be used.
"""

from __future__ import annotations

import sys
from collections.abc import Set

# Names in llama_print_system_info -> names in /proc/cpuinfo.
_KERNEL_NAMES = {
    "AVX": "avx",
    "AVX2": "avx2",
    "AVX_VNNI": "avx_vnni",
    "AVX512": "avx512f",
    "AVX512_VBMI": "avx512vbmi",
    "AVX512_VNNI": "avx512_vnni",
    "AVX512_BF16": "avx512_bf16",
    "AMX_INT8": "amx_int8",
    "F16C": "f16c",
    "FMA": "fma",
    "BMI2": "bmi2",
    "DOTPROD": "asimddp",
    "MATMUL_INT8": "i8mm",
    "SVE": "sve",
    "SME": "sme",
}


def unsupported_features(system_info: str, cpu_features: Set[str]) -> list[str]:
    """Instruction sets that the build uses and the CPU lacks.

    Args:
        system_info: of `binding.system_info`, for example `CPU : AVX = 1 | AVX2 = 1 |`.
        cpu_features: the kernel's names; when empty nothing is known, and nothing reported.
    """
    used = {
        part.partition("=")[0].split(":")[-1].strip()
        for part in system_info.split("|")
        if part.partition("=")[2].strip() == "1"
    }
    return sorted(
        name
        for name in used & _KERNEL_NAMES.keys()
        if cpu_features and _KERNEL_NAMES[name] not in cpu_features
    )


def _main() -> None:
    from homespec.runtime.binding import system_info
    from homespec.runtime.compiler import build_compiler
    from homespec.runtime.cpuinfo import cpu_features

    missing = unsupported_features(system_info(), cpu_features())
    if missing:
        sys.exit(f"This build of llama.cpp uses {', '.join(missing)}, which this CPU does not have.")
    if any(compiler not in build_compiler() for compiler in sys.argv[1:]):
        sys.exit(f"This build of llama.cpp is by another compiler ({build_compiler() or 'unknown'}).")


if __name__ == "__main__":
    _main()
