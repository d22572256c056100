"""Fewer tokens for a draft model to choose from: less to multiply for each token that it drafts.

Only the output is trimmed. The embedding rows of all of the source's tokens go along at the end of the file,
so that as a drafter the model still reads every token of the target (`runtime.trimmed`); taken by itself the
file is an ordinary model with a smaller vocabulary. Which tokens are kept decides how often drafts are right:
the most frequent of a text like those to come, not the lowest ids.

    counts = count_tokens(texts, encode) + Counter(tokens of the target's own replies)
    trim(source, destination, counts, num_tokens=32_768)
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGUFValueType, TokenType

from homespec.errors import ConfigError, ModelFormatError
from homespec.reduce.gguf_file import Entry, GgufModel, Scalar, Tensor, read_gguf, write_gguf
from homespec.reduce.provenance import with_step
from homespec.runtime.trim_layout import (
    TRIM_NUM_SOURCE_TOKENS,
    TRIM_ROWS_TYPE,
    TRIM_SOURCE_TOKENS_SHA256,
    TRIM_TOKEN_IDS,
)

TOKENS_MULTIPLE = 64
"""Sizes are rounded up to it: repacked kernels take 8 rows at a time, and each thread some of these."""

_PREFIX = "tokenizer.ggml."
_TOKENS, _TYPES, _MERGES = f"{_PREFIX}tokens", f"{_PREFIX}token_type", f"{_PREFIX}merges"
_ID_LISTS = (f"{_PREFIX}suppress_tokens",)
_EMBEDDING = "token_embd.weight"
# Tensors with a row, or an element, for each token.
_PER_TOKEN = (_EMBEDDING, "output.weight", "output.bias")
_ALWAYS_KEPT = (TokenType.UNKNOWN, TokenType.CONTROL, TokenType.USER_DEFINED, TokenType.BYTE)

Ids = npt.NDArray[np.int64]


def count_tokens(
    texts: Iterable[str],
    encode: Callable[[str], Sequence[int]],
    sequences: Iterable[Sequence[int]] = (),
) -> Counter[int]:
    """How often each token occurs.

    Args:
        texts: for example files of the kind that is going to be written.
        encode: the target's tokenizer.
        sequences: tokens already, for example replies of the target.
    """
    counts: Counter[int] = Counter()
    for text in texts:
        counts.update(encode(text))
    for sequence in sequences:
        counts.update(sequence)
    return counts


def trim(source: Path, destination: Path, counts: Mapping[int, int], num_tokens: int) -> None:
    """Writes a draft model that chooses from fewer tokens.

    Kept are control, user-defined, byte and unknown tokens and those that the metadata names, whatever their
    counts; then the most frequent ones, the lowest ids among equals (of byte pair encodings these are the
    most common ones).

    Args:
        source: a GGUF file in any number format.
        destination: the GGUF file to write, whole or not at all; equal inputs give equal bytes.
        counts: token id of the source -> how often it occurred; ids that the source lacks are ignored.
        num_tokens: how many to keep; rounded up to a multiple of `TOKENS_MULTIPLE`.

    Raises:
        ConfigError: so many tokens cannot be kept.
        ModelFormatError: the source cannot be trimmed.
        HomespecError: the destination cannot be written.
    """
    model = read_gguf(source)
    ids = choose_tokens(model, counts, num_tokens)
    rows = _tensor(model, _EMBEDDING)
    trimmed = with_step(with_tokens(model, ids), f"trim: {len(ids)} of {len(model.array(_TOKENS))} tokens")
    write_gguf(destination, trimmed, tail=np.ascontiguousarray(rows.data).view(np.uint8))


def choose_tokens(model: GgufModel, counts: Mapping[int, int], num_tokens: int) -> Ids:
    """The ids to keep, ascending; see `trim`.

    Raises:
        ConfigError: there are fewer tokens, or more that must be kept.
        ModelFormatError: the file has been trimmed before, or holds no vocabulary.
    """
    if TRIM_TOKEN_IDS in model.metadata:
        raise ModelFormatError(
            f"{model.path.name} has been trimmed before.", hint="Trim the file that it was made from."
        )
    num_source = len(model.array(_TOKENS))
    if num_source == 0 or num_source != len(model.array(_TYPES)):
        raise ModelFormatError(
            f"{model.path.name} holds no vocabulary with types of its tokens.",
            hint="Get a conversion of the model that carries its tokenizer.",
        )
    required = _required_tokens(model)
    size = -(-num_tokens // TOKENS_MULTIPLE) * TOKENS_MULTIPLE
    if not len(required) < size < num_source:
        raise ConfigError(
            f"{num_tokens:,} tokens were asked for; {model.path.name} has {num_source:,}, of which "
            f"{len(required):,} must be kept.",
            hint=f"Choose a number from {len(required) + 1} to {num_source - TOKENS_MULTIPLE}.",
        )
    frequency = np.zeros(num_source, dtype=np.int64)
    for token, count in counts.items():
        if 0 <= token < num_source:
            frequency[token] = count
    frequency[list(required)] = np.iinfo(np.int64).max
    return np.sort(np.argsort(-frequency, kind="stable")[:size])


def _required_tokens(model: GgufModel) -> set[int]:
    """Tokens without which not every text could be written, or the model would lose its special ones."""
    types = model.array(_TYPES)
    required = {token for token, kind in enumerate(types) if kind in _ALWAYS_KEPT}
    required |= {entry.number for entry in _special_ids(model).values()}
    if model.metadata[f"{_PREFIX}model"].value == "gpt2":
        ids = {text: token for token, text in enumerate(model.array(_TOKENS))}
        required |= {ids[text] for text in _byte_alphabet() if text in ids}
    return required


def _byte_alphabet() -> list[bytes]:
    """How byte-level encodings write the 256 bytes: printable ones as they are, others from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    shifted = {byte: 0x100 + number for number, byte in enumerate(others)}
    return [chr(shifted.get(byte, byte)).encode() for byte in range(256)]


def _special_ids(model: GgufModel) -> dict[str, Entry]:
    """The keys that name a single token which exists."""
    num_tokens = len(model.array(_TOKENS))
    return {
        key: entry
        for key, entry in model.metadata.items()
        if _names_a_token(key) and 0 <= entry.number < num_tokens
    }


def _names_a_token(key: str) -> bool:
    return key.startswith(_PREFIX) and key.endswith("_token_id")


def with_tokens(model: GgufModel, ids: Ids) -> GgufModel:
    """The model with these tokens only, numbered anew in the order of `ids`.

    Raises:
        ModelFormatError: a tensor that should have a row for each token has not.
    """
    num_source = len(model.array(_TOKENS))
    metadata = _trimmed_tokenizer(model, ids)
    vocab_size = f"{model.architecture}.vocab_size"
    if vocab_size in metadata:
        metadata[vocab_size] = replace(metadata[vocab_size], value=len(ids))
    embedding = _tensor(model, _EMBEDDING)
    metadata |= {
        TRIM_TOKEN_IDS: Entry(ids.tolist(), GGUFValueType.ARRAY, GGUFValueType.INT32),
        TRIM_NUM_SOURCE_TOKENS: Entry(num_source, GGUFValueType.UINT32),
        TRIM_SOURCE_TOKENS_SHA256: Entry(_tokens_sha256(model), GGUFValueType.STRING),
        TRIM_ROWS_TYPE: Entry(embedding.type.name, GGUFValueType.STRING),
    }
    tensors = tuple(
        replace(tensor, data=_tensor(model, tensor.name).data[ids]) if tensor.name in _PER_TOKEN else tensor
        for tensor in model.tensors
    )
    return replace(model, metadata=metadata, tensors=tensors)


def _tensor(model: GgufModel, name: str) -> Tensor:
    """A tensor with a row for each token, in a format that can be read again.

    Raises:
        ModelFormatError: it is not there, or another.
    """
    num_tokens = len(model.array(_TOKENS))
    tensor = next((tensor for tensor in model.tensors if tensor.name == name), None)
    if tensor is None or len(tensor.data) != num_tokens:
        raise ModelFormatError(
            f"{model.path.name} has no tensor {name} with a row for each of its {num_tokens:,} tokens.",
            hint="Choose a whole model whose tokenizer fits its weights.",
        )
    try:
        gguf.dequantize(tensor.data[:1], tensor.type)
    except NotImplementedError as error:
        raise ModelFormatError(
            f"{name} of {model.path.name} is in the format {tensor.type.name}, which cannot be read.",
            hint="Requantize the model, for example to Q8_0.",
        ) from error
    return tensor


def _tokens_sha256(model: GgufModel) -> str:
    """Of the array as it stands in the file: each text behind its length in eight bytes."""
    digest = hashlib.sha256()
    for text in model.array(_TOKENS):
        assert isinstance(text, bytes)
        digest.update(struct.pack("<Q", len(text)) + text)
    return digest.hexdigest()


def _trimmed_tokenizer(model: GgufModel, ids: Ids) -> dict[str, Entry]:
    """The metadata with the tokenizer's arrays, merges and special ids for these tokens."""
    num_source = len(model.array(_TOKENS))
    kept = ids.tolist()
    new_ids = {old: new for new, old in enumerate(kept)}
    metadata: dict[str, Entry] = {}
    for key, entry in model.metadata.items():
        if key == _MERGES:
            entry = replace(entry, value=_kept_merges(model, kept))
        elif key in _ID_LISTS:
            found = (new_ids.get(int(token)) for token in entry.elements)
            entry = replace(entry, value=[token for token in found if token is not None])
        elif _names_a_token(key):
            if key not in _special_ids(model):
                continue  # -1 and the like: "none"
            entry = replace(entry, value=new_ids[entry.number])
        elif key.startswith(_PREFIX) and len(entry.elements) == num_source:
            entry = replace(entry, value=[entry.elements[token] for token in kept])
        metadata[key] = entry
    return metadata


def _kept_merges(model: GgufModel, kept: Sequence[int]) -> list[Scalar]:
    """Those of which both parts and the result are kept.

    Raises:
        ConfigError: there is none, and llama.cpp needs one.
    """
    tokens = model.array(_TOKENS)
    texts = {tokens[token] for token in kept}
    merges: list[Scalar] = []
    for merge in model.array(_MERGES):
        assert isinstance(merge, bytes)
        # A part may begin with a space of its own; llama.cpp splits from the second byte on as well.
        space = merge.find(b" ", 1)
        first, second = merge[:space], merge[space + 1 :]
        if first in texts and second in texts and first + second in texts:
            merges.append(merge)
    if not merges:
        raise ConfigError(
            f"{len(kept):,} tokens of {model.path.name} leave no merge of two tokens.",
            hint="Keep more tokens.",
        )
    return merges
