"""What a GGUF file can hold: number formats, value types, and the records of a header that was read."""

from __future__ import annotations

import hashlib
import struct
import sys
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from homespec.errors import ModelFormatError

# ggml_type -> (name, elements per block, bytes per block); ggml/src/ggml.c, type_traits.
GGML_TYPES: Mapping[int, tuple[str, int, int]] = MappingProxyType(
    {
        0: ("F32", 1, 4),
        1: ("F16", 1, 2),
        2: ("Q4_0", 32, 18),
        3: ("Q4_1", 32, 20),
        6: ("Q5_0", 32, 22),
        7: ("Q5_1", 32, 24),
        8: ("Q8_0", 32, 34),
        9: ("Q8_1", 32, 36),
        10: ("Q2_K", 256, 84),
        11: ("Q3_K", 256, 110),
        12: ("Q4_K", 256, 144),
        13: ("Q5_K", 256, 176),
        14: ("Q6_K", 256, 210),
        15: ("Q8_K", 256, 292),
        16: ("IQ2_XXS", 256, 66),
        17: ("IQ2_XS", 256, 74),
        18: ("IQ3_XXS", 256, 98),
        19: ("IQ1_S", 256, 50),
        20: ("IQ4_NL", 32, 18),
        21: ("IQ3_S", 256, 110),
        22: ("IQ2_S", 256, 82),
        23: ("IQ4_XS", 256, 136),
        24: ("I8", 1, 1),
        25: ("I16", 1, 2),
        26: ("I32", 1, 4),
        27: ("I64", 1, 8),
        28: ("F64", 1, 8),
        29: ("IQ1_M", 256, 56),
        30: ("BF16", 1, 2),
        34: ("TQ1_0", 256, 54),
        35: ("TQ2_0", 256, 66),
        39: ("MXFP4", 32, 17),
        40: ("NVFP4", 64, 36),
        41: ("Q1_0", 128, 18),
        42: ("Q2_0", 64, 18),
    }
)

# GGUF value type -> array code; a truth value is one byte. 8 is string, 9 is array.
ARRAY_CODES: Mapping[int, str] = MappingProxyType(dict(enumerate("BbHhIifB")) | {10: "Q", 11: "q", 12: "d"})
STRING_TYPE = 8
ARRAY_TYPE = 9
STRING_LENGTH = struct.Struct("<Q")

DAMAGED_HINT = "Download the file again; if it stays so, ask its publisher for a new conversion."


@dataclass(frozen=True, slots=True)
class GgufArray:
    """An array of the metadata that is still in the file.

    Attributes:
        path: the GGUF file.
        key: its metadata key.
        element_type: GGUF value type number of the elements; 8 is string.
        num_elements: how many.
        offset: of the first element, from the start of the file.
        num_bytes: length in the file; strings carry an 8-byte length each.
    """

    path: Path
    key: str
    element_type: int
    num_elements: int
    offset: int
    num_bytes: int

    @property
    def holds_strings(self) -> bool:
        """Whether the elements are strings."""
        return self.element_type == STRING_TYPE

    def read_bytes(self) -> bytes:
        """The array as it stands in the file.

        Raises:
            ModelFormatError: the file has changed since its header was read.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read(self.num_bytes)
        except OSError as error:
            raise ModelFormatError(f"{self.path.name} can no longer be read: {error.strerror}.") from error
        if len(data) != self.num_bytes:
            self._changed()
        return data

    def sha256(self) -> str:
        """Digest of the array's bytes: equal for equal arrays."""
        return hashlib.sha256(self.read_bytes()).hexdigest()

    def strings(self) -> Iterator[bytes]:
        """The elements of an array of strings, undecoded: a token's text need not be valid UTF-8.

        Raises:
            ModelFormatError: the elements are not strings, or the file has changed.
        """
        if not self.holds_strings:
            raise ModelFormatError(
                f"{self.path.name}: {self.key} must be an array of strings, but holds numbers.",
                hint=DAMAGED_HINT,
            )
        data = self.read_bytes()
        position = 0
        for _ in range(self.num_elements):
            if position + 8 > len(data):
                self._changed()
            start = position + 8
            position = start + STRING_LENGTH.unpack_from(data, position)[0]
            if position > len(data):
                self._changed()
            yield data[start:position]

    def integers(self) -> tuple[int, ...]:
        """The elements of an array of whole numbers or truth values.

        Raises:
            ModelFormatError: the elements are of another kind, or the file has changed.
        """
        if self.holds_strings or ARRAY_CODES[self.element_type] in "fd":
            raise ModelFormatError(
                f"{self.path.name}: {self.key} must be an array of whole numbers, but holds "
                f"{'strings' if self.holds_strings else 'fractions'}.",
                hint=DAMAGED_HINT,
            )
        values = array(ARRAY_CODES[self.element_type], self.read_bytes())
        if sys.byteorder == "big":
            values.byteswap()
        return tuple(values)

    def _changed(self) -> NoReturn:
        raise ModelFormatError(
            f"{self.path.name} has changed since its header was read: {self.key} is no longer where it was.",
            hint="Wait until the file is written completely, then start again.",
        )


MetadataValue = bool | int | float | str | GgufArray


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One row of the tensor table.

    Attributes:
        name: unique within the file.
        shape: one to four lengths in ggml's order, the contiguous dimension first.
        type_name: ggml's name of the number format, such as `Q4_K`.
        offset: of the data, from the start of the file.
        num_bytes: of the data, without padding.
    """

    name: str
    shape: tuple[int, ...]
    type_name: str
    offset: int
    num_bytes: int

    @property
    def num_elements(self) -> int:
        """Product of the shape."""
        product = 1
        for length in self.shape:
            product *= length
        return product


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a GGUF file says about itself.

    Attributes:
        path: the file.
        version: 2 or 3.
        metadata: scalars as Python values, arrays as `GgufArray`.
        tensors: in the order of the file; their data neither overlap nor reach beyond the file.
        data_offset: where the tensor data begin.
        file_bytes: size of the file.
    """

    path: Path
    version: int
    metadata: Mapping[str, MetadataValue]
    tensors: tuple[GgufTensor, ...]
    data_offset: int
    file_bytes: int

    @property
    def architecture(self) -> str:
        """`general.architecture`, or an empty string where the file does not say."""
        return self.text("general.architecture") or ""

    @property
    def tensors_end(self) -> int:
        """Where the last tensor ends, from the start of the file; other bytes may follow."""
        return max((tensor.offset + tensor.num_bytes for tensor in self.tensors), default=self.data_offset)

    def text(self, key: str) -> str | None:
        """A string, or None where the key is absent.

        Raises:
            ModelFormatError: the value is not a string.
        """
        value = self.metadata.get(key)
        if value is None or isinstance(value, str):
            return value
        self._wrong_kind(key, "a string")

    def integer(self, key: str) -> int | None:
        """A whole number, or None where the key is absent.

        Raises:
            ModelFormatError: the value is something else.
        """
        value = self.metadata.get(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        self._wrong_kind(key, "a whole number")

    def flag(self, key: str) -> bool | None:
        """A truth value, or None where the key is absent.

        Raises:
            ModelFormatError: the value is something else.
        """
        value = self.metadata.get(key)
        if value is None or isinstance(value, bool):
            return value
        self._wrong_kind(key, "true or false")

    def array(self, key: str) -> GgufArray | None:
        """An array, or None where the key is absent.

        Raises:
            ModelFormatError: the value is not an array.
        """
        value = self.metadata.get(key)
        if value is None or isinstance(value, GgufArray):
            return value
        self._wrong_kind(key, "an array")

    def _wrong_kind(self, key: str, wanted: str) -> NoReturn:
        value = self.metadata[key]
        found = "an array" if isinstance(value, GgufArray) else repr(value)[:40]
        raise ModelFormatError(
            f"{self.path.name}: {key} must be {wanted}, but is {found}.", hint=DAMAGED_HINT
        )
