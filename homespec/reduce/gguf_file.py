"""GGUF files that are read to be changed, and written whole or not at all."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, GGUFEndian, GGUFValueType

from homespec.errors import ModelFormatError, ModelNotFoundError
from homespec.runtime.atomic import written_whole

ARCHITECTURES = ("gemma3", "llama", "qwen2", "qwen3")
"""Whose files can be reduced: the catalogue's."""

Scalar = bool | int | float | str | bytes
_AnyArray = npt.NDArray[np.generic]
_LENGTH = struct.Struct("<Q")
_ARCHITECTURE, _ALIGNMENT = "general.architecture", "general.alignment"
# Behind the tensors; a page of any machine begins at a multiple of it or of a divisor.
_TAIL_ALIGNMENT = 4096


@dataclass(frozen=True, slots=True)
class Entry:
    """A value of the metadata with its type.

    Attributes:
        value: a scalar, or the elements of an array; text in arrays as bytes: a token need not be UTF-8.
        type: of the value.
        element_type: of the elements where the value is an array.
    """

    value: Scalar | Sequence[Scalar]
    type: GGUFValueType
    element_type: GGUFValueType | None = None

    @property
    def number(self) -> int:
        """The value of a whole number."""
        assert isinstance(self.value, int)
        return self.value

    @property
    def elements(self) -> Sequence[Scalar]:
        """The elements of an array; none of a scalar."""
        return self.value if self.element_type is not None else ()  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor as it is in the file.

    Attributes:
        name: unique within the file.
        type: number format.
        data: rows first, the reverse of ggml's order. Of block formats the bytes: a row is a whole number of
            blocks, so the rows can be chosen freely.
    """

    name: str
    type: GGMLQuantizationType
    data: _AnyArray


@dataclass(frozen=True, slots=True)
class GgufModel:
    """All of a GGUF file; the tensors' data are mapped from the file until they are asked for.

    Attributes:
        path: the file that it was read from.
        metadata: in the order of the file.
        tensors: in the order of the file.
    """

    path: Path
    metadata: Mapping[str, Entry]
    tensors: tuple[Tensor, ...]

    @property
    def architecture(self) -> str:
        """`general.architecture`."""
        entry = self.metadata.get(_ARCHITECTURE)
        return str(entry.value) if entry else ""

    def array(self, key: str) -> Sequence[Scalar]:
        """The elements of an array; none where the key is absent."""
        entry = self.metadata.get(key)
        return entry.elements if entry else ()


class _Reader(gguf.GGUFReader):
    """gguf's reader, which takes seven seconds for 152,000 tokens and their merges, with faster arrays.

    It makes several views of mapped memory for each element; here an array of numbers is one view, and one of
    texts a view for each.
    """

    def _get_field_parts(
        self, orig_offs: int, raw_type: int
    ) -> tuple[int, list[_AnyArray], list[int], list[GGUFValueType]]:
        if raw_type != GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        element_type = GGUFValueType(int(self._get(orig_offs, np.uint32)[0]))
        num_elements = int(self._get(orig_offs + 4, np.uint64)[0])
        start = orig_offs + 12
        types = [GGUFValueType.ARRAY, element_type]
        if element_type in self.gguf_scalar_to_np:
            values = self._get(start, self.gguf_scalar_to_np[element_type], num_elements)
            if len(values) != num_elements:
                raise ValueError("an array reaches beyond the file")
            return 12 + values.nbytes, [values], [0], types
        if element_type != GGUFValueType.STRING:
            raise ValueError("arrays of arrays are not known")
        texts: list[_AnyArray] = []
        position = start
        data = self.data.view(np.ndarray)
        buffer = data.data
        for _ in range(num_elements):
            end = position + 8 + _LENGTH.unpack_from(buffer, position)[0]
            if end > len(data):
                raise ValueError("an array reaches beyond the file")
            texts.append(data[position + 8 : end])
            position = end
        return position - orig_offs, texts, list(range(num_elements)), types


def read_gguf(path: Path) -> GgufModel:
    """Reads a GGUF file.

    Raises:
        ModelNotFoundError: there is no such file.
        ModelFormatError: it is not a whole GGUF file of this machine's byte order, or has an architecture
            that cannot be reduced.
    """
    try:
        reader = _Reader(path)
        # A tensor's data are views: that all are there has been found by making them.
        tensors = tuple(Tensor(t.name, t.tensor_type, t.data) for t in reader.tensors)
    except FileNotFoundError as error:
        raise ModelNotFoundError(
            f"There is no file {path}.", hint="Check the path, or name a model."
        ) from error
    except (ValueError, KeyError, IndexError, struct.error, OSError) as error:
        raise ModelFormatError(
            f"{path.name} cannot be read as a GGUF file: {error}.", hint="Download the file again."
        ) from error
    if reader.endianess != GGUFEndian.LITTLE:
        raise ModelFormatError(f"{path.name} is big-endian.", hint="Convert it on a little-endian machine.")
    fields = reader.fields.values()
    metadata = {field.name: _entry(field) for field in fields if not field.name.startswith("GGUF.")}
    model = GgufModel(path, metadata, tensors)
    if model.architecture not in ARCHITECTURES:
        raise ModelFormatError(
            f"{path.name} has the architecture {model.architecture or 'none'}; those that can be reduced are "
            f"{', '.join(ARCHITECTURES)}.",
            hint="Choose a draft model of one of these.",
        )
    return model


def _entry(field: gguf.ReaderField) -> Entry:
    kind = field.types[0]
    if kind != GGUFValueType.ARRAY:
        return Entry(field.contents(), kind)
    element_type = field.types[1]
    parts = [field.parts[index] for index in field.data]
    if element_type == GGUFValueType.STRING:
        return Entry([bytes(part) for part in parts], kind, element_type)
    return Entry(parts[0].tolist(), kind, element_type)


def write_gguf(path: Path, model: GgufModel, tail: npt.NDArray[np.uint8] | None = None) -> None:
    """Writes a GGUF file so that it is there whole or not at all; the same content gives the same bytes.

    Args:
        path: the destination; what is there is replaced at the end.
        model: what to write.
        tail: bytes behind the last tensor, the last of the file, from a multiple of 4,096 on. llama.cpp
            (ggml/src/gguf.cpp) looks at nothing there.

    Raises:
        HomespecError: see `written_whole`.
    """
    with written_whole(path) as part:
        write_gguf_plainly(part, model)
        if tail is not None:
            with part.open("ab") as file:
                file.write(bytes(-file.tell() % _TAIL_ALIGNMENT))
                tail.tofile(file)


def write_gguf_plainly(path: Path, model: GgufModel) -> None:
    """Writes a GGUF file in place: for files that nobody else will see.

    Raises:
        OSError: it could not be written.
    """
    writer = gguf.GGUFWriter(path, model.architecture)
    try:
        for key, entry in model.metadata.items():
            if key == _ALIGNMENT:
                writer.add_custom_alignment(entry.number)
            elif key != _ARCHITECTURE and (entry.element_type is None or entry.elements):
                writer.add_key_value(key, entry.value, entry.type, entry.element_type)
        for tensor in model.tensors:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()
