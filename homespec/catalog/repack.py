"""Which weights llama.cpp's CPU backend keeps a second time, in the layout its kernels like best.

The copy is anonymous memory on top of the mapped file. Source: ggml/src/ggml-cpu/repack.cpp,
`ggml_repack_get_optimal_repack_type`, and select_weight_buft in src/llama-model-loader.cpp: matrices that are
multiplied with (MUL_MAT, and MUL_MAT_ID for experts), not tables that rows are fetched from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from homespec.catalog.gguf_header import GgufTensor

# Names of /proc/cpuinfo: x86 `flags`, arm64 `Features`.
AVX2, AVX512, DOTPROD, INT8_MATMUL = "avx2", "avx512f", "asimddp", "i8mm"

# Feature -> number format -> the number of rows that a matrix must be a multiple of.
_ROWS: Mapping[str, Mapping[str, int]] = {
    AVX2: {"Q4_0": 8, "Q4_K": 8, "IQ4_NL": 8, "MXFP4": 8},
    AVX512: {"Q2_K": 8},
    DOTPROD: {"Q4_0": 4, "Q4_K": 8, "Q5_K": 8, "Q6_K": 8, "IQ4_NL": 4, "MXFP4": 4, "Q8_0": 4, "Q1_0": 4},
    INT8_MATMUL: {"Q4_0": 4, "Q4_K": 8, "Q5_K": 8, "Q6_K": 8, "Q8_0": 4, "Q1_0": 4},
}

# Rows are fetched from these; multiplying with the first happens only where it serves as the output too.
_TABLES = ("token_embd.weight", "per_layer_token_embd.weight", "position_embd.weight", "token_types.weight")
# Operands of convolutions and scans.
_OTHER_OPERATORS = ("conv1d", "shortconv.conv", "ssm_a", "ssm_d")


@dataclass(frozen=True, slots=True)
class MatrixGroup:
    """Matrices of one number format whose row counts have the same divisor.

    Attributes:
        type_name: ggml's name of the format.
        row_divisor: 8, 4 or 1: the largest of these that divides the rows of each.
        num_bytes: of all together.
        num_tied_bytes: the part that is also the token table, from which rows are still fetched.
    """

    type_name: str
    row_divisor: int
    num_bytes: int
    num_tied_bytes: int


def group_matrices(tensors: Iterable[GgufTensor]) -> tuple[MatrixGroup, ...]:
    """The matrices of a model that could be repacked on some CPU."""
    tensors = tuple(tensors)
    is_tied = all(tensor.name != "output.weight" for tensor in tensors)
    sums: dict[tuple[str, int], list[int]] = {}
    for tensor in tensors:
        is_tied_table = is_tied and tensor.name == "token_embd.weight"
        if not (is_tied_table or _is_multiplied(tensor)):
            continue
        rows = tensor.shape[1]
        divisor = 8 if rows % 8 == 0 else 4 if rows % 4 == 0 else 1
        entry = sums.setdefault((tensor.type_name, divisor), [0, 0])
        entry[0] += tensor.num_bytes
        entry[1] += tensor.num_bytes if is_tied_table else 0
    return tuple(MatrixGroup(name, divisor, *entry) for (name, divisor), entry in sorted(sums.items()))


def is_repacked(group: MatrixGroup, cpu_features: frozenset[str]) -> bool:
    """Whether a CPU with these features gets a copy of the group."""
    rows = (_ROWS[feature].get(group.type_name) for feature in _ROWS if feature in cpu_features)
    return any(needed is not None and group.row_divisor % needed == 0 for needed in rows)


def _is_multiplied(tensor: GgufTensor) -> bool:
    experts = "_exps." in tensor.name
    return (
        tensor.name.endswith(".weight")
        and len(tensor.shape) == (3 if experts else 2)
        and tensor.name not in _TABLES
        and not any(part in tensor.name for part in _OTHER_OPERATORS)
    )
