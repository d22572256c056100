"""Reads the header of a GGUF file: metadata and tensor table, never the tensors.

The layout is that of llama.cpp's `gguf_init_from_reader` (ggml/src/gguf.cpp), versions 2 and 3. The file is
not trusted: every count, length and offset is checked against the file's size and against limits far above
any real model, so that a hostile header costs neither time nor memory. Arrays stay in the file and are read
when asked for, since a vocabulary of 152,000 tokens is wanted rarely and weighs megabytes.
"""

from __future__ import annotations

import io
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from homespec.catalog.gguf_format import (
    ARRAY_CODES,
    ARRAY_TYPE,
    DAMAGED_HINT,
    GGML_TYPES,
    STRING_LENGTH,
    STRING_TYPE,
    GgufArray,
    GgufHeader,
    GgufTensor,
    MetadataValue,
)
from homespec.errors import ModelFormatError, ModelNotFoundError

__all__ = ["GgufArray", "GgufHeader", "GgufTensor", "MetadataValue", "read_header"]

_SCALARS: Mapping[int, struct.Struct] = MappingProxyType(
    {number: struct.Struct("<" + code) for number, code in enumerate("BbHhIif?")}
    | {10: struct.Struct("<Q"), 11: struct.Struct("<q"), 12: struct.Struct("<d")}
)
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")

_MAGIC = b"GGUF"
_OLDEST_VERSION, _NEWEST_VERSION = 2, 3
_FIXED_HEADER_BYTES = 24
_DEFAULT_ALIGNMENT = 32
_MAX_DIMENSIONS = 4
_MAX_NAME_BYTES = 63  # GGML_MAX_NAME - 1
_MAX_TENSOR_ELEMENTS = 2**63 - 1

# Limits against hostile files. The largest real headers have some 10,000 tensors, 800,000 strings
# (262,144 tokens and their merges), 20 MB in all, and chat templates of 100 kB.
_MAX_TENSORS = 65_536
_MAX_KEYS = 65_536
_MAX_KEY_BYTES = 65_535
_MAX_STRINGS = 2_097_152
_MAX_TEXT_BYTES = 8 << 20
_MAX_HEADER_BYTES = 256 << 20
_WINDOW_BYTES = 1 << 20

_WRONG_FILE_HINTS = (
    (b"vers", "This is a Git LFS pointer; run `git lfs pull`, or download the file itself."),
    (b"<", "This looks like a web page; use the file's download link."),
    (b"PK", "This looks like a PyTorch checkpoint; convert it with llama.cpp's convert_hf_to_gguf.py."),
)


def read_header(path: Path) -> GgufHeader:
    """Reads and checks the header of a GGUF file.

    Raises:
        ModelNotFoundError: there is no such file.
        ModelFormatError: it is not a whole, well-formed GGUF file of version 2 or 3.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ModelFormatError(f"{path} is not a regular file.", hint="Name the .gguf file itself.")
        # Unbuffered: the reader below has its own window, and a read of 1 MB should be one call.
        with path.open("rb", buffering=0) as file:
            return _HeaderReader(path, file, status.st_size).read()
    except FileNotFoundError as error:
        raise ModelNotFoundError(
            f"There is no file {path}.", hint="Check the path, or name a model."
        ) from error
    except OSError as error:
        raise ModelFormatError(
            f"{path} cannot be read: {error.strerror or error}.", hint="Check the file and its permissions."
        ) from error


class _HeaderReader:
    """Walks once through a header, holding a window of the file."""

    def __init__(self, path: Path, file: io.FileIO, file_bytes: int) -> None:
        self._path = path
        self._file = file
        self._file_bytes = file_bytes
        self._window = b""
        self._window_start = 0
        self._position = 0
        self._strings_left = _MAX_STRINGS
        self._text_bytes_left = _MAX_TEXT_BYTES

    def read(self) -> GgufHeader:
        """The whole header, checked."""
        if self._file_bytes < _FIXED_HEADER_BYTES:
            self._fail(
                f"a GGUF header has at least {_FIXED_HEADER_BYTES} bytes, the file has {self._file_bytes:,}"
            )
        version = self._read_version()
        num_tensors = self._read_count("tensors", _MAX_TENSORS)
        num_keys = self._read_count("metadata keys", _MAX_KEYS)
        metadata: dict[str, MetadataValue] = {}
        for _ in range(num_keys):
            key = self._read_text("a metadata key", _MAX_KEY_BYTES)
            if not key or key in metadata:
                self._fail(f"metadata key {key!r} {'stands twice' if key else 'is empty'}")
            metadata[key] = self._read_value(key)
        alignment = self._alignment(metadata)
        rows = [self._read_tensor_row() for _ in range(num_tensors)]
        data_offset = -(-self._position // alignment) * alignment
        return GgufHeader(
            path=self._path,
            version=version,
            metadata=MappingProxyType(metadata),
            tensors=self._place_tensors(rows, data_offset, alignment),
            data_offset=data_offset,
            file_bytes=self._file_bytes,
        )

    # The fixed part.

    def _read_version(self) -> int:
        magic = self._take(4, "the magic number")
        if magic != _MAGIC:
            hints = (hint for start, hint in _WRONG_FILE_HINTS if magic.startswith(start))
            self._fail(
                f"a GGUF file begins with b'GGUF', this one with {magic!r}",
                hint=next(hints, "Name a file in GGUF format."),
            )
        version = self._number(_U32, "the version")
        # A version in the other byte order has its set bits in the upper half, as llama.cpp also argues.
        if version and version & 0xFFFF == 0:
            self._fail("it is written big-endian, little-endian is needed", hint="Get a little-endian file.")
        if version < _OLDEST_VERSION:
            self._fail(
                f"its GGUF version is {version}, which llama.cpp no longer reads; 2 or 3 is needed",
                hint="Get a newer conversion of the model.",
            )
        if version > _NEWEST_VERSION:
            self._fail(
                f"its GGUF version is {version}; this homespec reads up to {_NEWEST_VERSION}",
                hint="Upgrade homespec, or get a conversion of version 3.",
            )
        return version

    def _read_count(self, what: str, limit: int) -> int:
        count = self._number(_U64, f"the number of {what}")
        if count > limit:
            self._fail(f"it claims {count:,} {what}; at most {limit:,} are possible")
        return count

    # Metadata.

    def _read_value(self, key: str) -> MetadataValue:
        value_type = self._number(_U32, f"the type of {key}")
        if value_type == STRING_TYPE:
            return self._read_text(key, _MAX_TEXT_BYTES)
        if value_type == ARRAY_TYPE:
            return self._read_array(key)
        if value_type not in _SCALARS:
            self._fail(f"{key} has the unknown value type {value_type}")
        scalar = _SCALARS[value_type]
        value: bool | int | float = scalar.unpack(self._take(scalar.size, key))[0]
        return value

    def _read_array(self, key: str) -> GgufArray:
        element_type = self._number(_U32, f"the element type of {key}")
        num_elements = self._number(_U64, f"the length of {key}")
        start = self._position
        if element_type == STRING_TYPE:
            self._skip_strings(key, num_elements)
        elif element_type in ARRAY_CODES:
            self._skip(_SCALARS[element_type].size * num_elements, key)
        elif element_type == ARRAY_TYPE:
            self._fail(f"{key} is an array of arrays, which GGUF readers do not accept")
        else:
            self._fail(f"{key} is an array of the unknown value type {element_type}")
        return GgufArray(self._path, key, element_type, num_elements, start, self._position - start)

    def _skip_strings(self, key: str, count: int) -> None:
        if count > self._strings_left:
            self._fail(f"{key} claims {count:,} strings; at most {_MAX_STRINGS:,} are possible in one file")
        self._strings_left -= count
        unpack = STRING_LENGTH.unpack_from
        while count:
            self._fill(8, key)
            window, position = self._window, self._position - self._window_start
            # The hot loop of the whole reader: two vocabulary arrays have 300,000 strings. It notices the end
            # of the window by an exception, since a comparison a string would double the time.
            try:
                for done in range(count):  # noqa: B007
                    (num_bytes,) = unpack(window, position)
                    position += num_bytes + 8
                count = 0
            except (struct.error, OverflowError, IndexError):
                count -= done
            self._skip(self._window_start + position - self._position, key)

    def _read_text(self, what: str, limit_bytes: int) -> str:
        num_bytes = self._number(_U64, f"the length of {what}")
        limit_bytes = min(limit_bytes, self._text_bytes_left)
        if num_bytes > limit_bytes:
            self._fail(f"{what} claims {num_bytes:,} bytes; at most {limit_bytes:,} are possible here")
        self._text_bytes_left -= num_bytes
        return self._take(num_bytes, what).decode("utf-8", errors="replace")

    def _alignment(self, metadata: Mapping[str, MetadataValue]) -> int:
        alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        if type(alignment) is not int or alignment <= 0 or alignment & (alignment - 1):
            self._fail(f"general.alignment must be a power of two, but is {alignment!r}")
        return alignment

    # The tensor table.

    def _read_tensor_row(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._read_text("a tensor's name", _MAX_NAME_BYTES)
        num_dimensions = self._number(_U32, f"the dimensions of {name!r}")
        if not 1 <= num_dimensions <= _MAX_DIMENSIONS:
            self._fail(
                f"tensor {name!r} has {num_dimensions:,} dimensions; 1 to {_MAX_DIMENSIONS} are possible"
            )
        shape = tuple(self._number(_U64, f"the shape of {name!r}") for _ in range(num_dimensions))
        type_number = self._number(_U32, f"the type of {name!r}")
        return name, shape, type_number, self._number(_U64, f"the offset of {name!r}")

    def _place_tensors(
        self, rows: list[tuple[str, tuple[int, ...], int, int]], data_offset: int, alignment: int
    ) -> tuple[GgufTensor, ...]:
        """Checks that the tensors follow each other as llama.cpp demands, and lie within the file."""
        tensors: list[GgufTensor] = []
        names: set[str] = set()
        expected_offset = 0
        for name, shape, type_number, offset in rows:
            if name in names:
                self._fail(f"tensor {name!r} stands twice")
            names.add(name)
            num_bytes = self._tensor_bytes(name, shape, type_number)
            if offset != expected_offset:
                problem = "overlaps the tensor before it" if offset < expected_offset else "leaves a gap"
                if offset % alignment:
                    problem = f"is not aligned to {alignment} bytes"
                self._fail(f"tensor {name!r} must start at {expected_offset:,}, but {offset:,} {problem}")
            expected_offset += -(-num_bytes // alignment) * alignment
            type_name = GGML_TYPES[type_number][0]
            tensors.append(GgufTensor(name, shape, type_name, data_offset + offset, num_bytes))
        needed_bytes = tensors[-1].offset + tensors[-1].num_bytes if tensors else self._position
        if needed_bytes > self._file_bytes:
            self._fail(
                f"its tensors need {needed_bytes:,} bytes, the file has {self._file_bytes:,}",
                hint="The download was probably cut short; download the file again.",
            )
        return tuple(tensors)

    def _tensor_bytes(self, name: str, shape: tuple[int, ...], type_number: int) -> int:
        num_elements = 1
        for length in shape:
            num_elements *= length
        if not 0 < num_elements <= _MAX_TENSOR_ELEMENTS:
            self._fail(f"tensor {name!r} has the impossible shape {shape}")
        if type_number not in GGML_TYPES:
            self._fail(
                f"tensor {name!r} has the unknown number format {type_number}",
                hint="Get another quantization of the model, such as Q4_K_M or Q8_0.",
            )
        type_name, block_elements, block_bytes = GGML_TYPES[type_number]
        if shape[0] % block_elements:
            self._fail(
                f"tensor {name!r} has rows of {shape[0]:,} elements; {type_name} needs a multiple of "
                f"{block_elements}"
            )
        return num_elements // block_elements * block_bytes

    # The window on the file.

    def _number(self, layout: struct.Struct, what: str) -> int:
        value: int = layout.unpack(self._take(layout.size, what))[0]
        return value

    def _take(self, num_bytes: int, what: str) -> bytes:
        self._fill(num_bytes, what)
        start = self._position - self._window_start
        self._position += num_bytes
        return self._window[start : start + num_bytes]

    def _skip(self, num_bytes: int, what: str) -> None:
        self._check_room(num_bytes, what)
        self._position += num_bytes

    def _fill(self, num_bytes: int, what: str) -> None:
        """Makes sure that the next bytes are in the window."""
        if self._position + num_bytes <= self._window_start + len(self._window):
            return
        self._check_room(num_bytes, what)
        self._file.seek(self._position)
        self._window = self._file.read(max(num_bytes, _WINDOW_BYTES))
        self._window_start = self._position
        if len(self._window) < num_bytes:
            self._fail(f"it became shorter while {what} was read")

    def _check_room(self, num_bytes: int, what: str) -> None:
        end = self._position + num_bytes
        if end > self._file_bytes:
            self._fail(
                f"its header is cut off: {what} reaches to byte {end:,}, the file has {self._file_bytes:,}",
                hint="The download was probably cut short; download the file again.",
            )
        if end > _MAX_HEADER_BYTES:
            self._fail(f"its header reaches beyond {_MAX_HEADER_BYTES:,} bytes with {what}")

    def _fail(self, problem: str, *, hint: str = DAMAGED_HINT) -> NoReturn:
        raise ModelFormatError(f"{self._path.name} cannot be opened: {problem}.", hint=hint)
