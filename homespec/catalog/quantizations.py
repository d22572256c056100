"""What a model would weigh in another number format, and how faithful a file is, from its header alone."""

from __future__ import annotations

import math

from homespec.catalog.gguf_format import GGML_TYPES
from homespec.catalog.gguf_header import GgufHeader, GgufTensor
from homespec.catalog.trimmed import read_trim
from homespec.errors import ConfigError
from homespec.runtime.quantize import FILE_TYPES

SOURCE_TYPE = "homespec.source.quantization"
"""Metadata key: the number format of the file that a requantized one was made from."""

FULL_PRECISION = frozenset({"F32", "F16", "BF16"})
_BLOCKS = {name: (elements, num_bytes) for name, elements, num_bytes in GGML_TYPES.values()}
# Where rows are no multiple of a format's block (src/llama-quant.cpp, tensor_type_fallback).
_SMALLER_BLOCKS = {
    "Q4_K": "Q5_0",
    "Q5_K": "Q5_1",
    "Q6_K": "Q8_0",
    "Q3_K": "Q4_0",
    "Q2_K": "Q4_0",
    "IQ4_XS": "IQ4_NL",
}
# What mixtures give to values and to the second half of the feed-forward part, in some of the layers.
_MIXTURES = {
    "Q5_K_M": "Q6_K",
    "Q4_K_M": "Q6_K",
    "Q4_K_S": "Q5_K",
    "Q3_K_M": "Q4_K",
    "Q2_K": "Q3_K",
    "IQ4_NL": "Q5_K",
}
_MIXED_TENSORS = ("attn_v.weight", "ffn_down.weight")
_MIXED_SHARE = 0.5
_ALIGNMENT = 32


def file_type(header: GgufHeader) -> str:
    """The quantization as llama.cpp calls it, such as Q4_K_M; or else the number format of most of it."""
    number = header.integer("general.file_type")
    names = (name for name, (code, _) in FILE_TYPES.items() if code == number)
    return next(names, None) or main_type(header)


def main_type(header: GgufHeader) -> str:
    """The number format of most of the bytes."""
    sums: dict[str, int] = {}
    for tensor in header.tensors:
        sums[tensor.type_name] = sums.get(tensor.type_name, 0) + tensor.num_bytes
    return max(sums, key=lambda name: sums[name])


def bits_per_weight(header: GgufHeader) -> float:
    """Over all tensors."""
    elements = sum(math.prod(tensor.shape) for tensor in header.tensors)
    return 8 * sum(tensor.num_bytes for tensor in header.tensors) / elements


def lossy_source(header: GgufHeader) -> str | None:
    """The quantization of the file that this one was made from, if that had lost precision already."""
    source = header.text(SOURCE_TYPE)
    return source if source and source not in FULL_PRECISION else None


def quantized_bytes(header: GgufHeader, name: str, *, pure: bool = False) -> int:
    """About how large a file becomes; exact for F32, F16, BF16, Q8_0 and whatever is pure.

    Args:
        header: of the file as it is.
        name: a key of FILE_TYPES.
        pure: see `runtime.quantize.Form`.
    """
    is_tied = all(tensor.name != "output.weight" for tensor in header.tensors)
    sizes = (_tensor_bytes(tensor, name, pure=pure, is_tied=is_tied) for tensor in header.tensors)
    return header.data_offset + sum(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)


def check_quantizable(header: GgufHeader) -> None:
    """Refuses what the quantizer would spoil.

    Raises:
        ConfigError: the file is a trimmed draft model, whose embedding rows the quantizer would leave out.
    """
    if read_trim(header) is not None:
        raise ConfigError(
            f"{header.path.name} is a trimmed draft model, which cannot be requantized.",
            hint="Reduce the model that it was made from with `homespec draft reduce --type`.",
        )


def _tensor_bytes(tensor: GgufTensor, name: str, *, pure: bool, is_tied: bool) -> int:
    if len(tensor.shape) < 2 or not tensor.name.endswith("weight") or "_norm" in tensor.name:
        return tensor.num_bytes
    main = FILE_TYPES[name][1]
    is_output = tensor.name == "output.weight" or (is_tied and tensor.name == "token_embd.weight")
    if is_output and not pure and main not in FULL_PRECISION | {"Q8_0"}:
        return _bytes_as(tensor, "Q6_K")
    if not pure and name in _MIXTURES and tensor.name.endswith(_MIXED_TENSORS):
        better, usual = _bytes_as(tensor, _MIXTURES[name]), _bytes_as(tensor, main)
        return round(_MIXED_SHARE * better + (1 - _MIXED_SHARE) * usual)
    return _bytes_as(tensor, main)


def _bytes_as(tensor: GgufTensor, type_name: str) -> int:
    for candidate in (type_name, _SMALLER_BLOCKS.get(type_name, type_name), "F16"):
        block_elements, block_bytes = _BLOCKS[candidate]
        if tensor.shape[0] % block_elements == 0:
            break
    return math.prod(tensor.shape) // block_elements * block_bytes
