"""The GGUF header reader: what it reads, and how it refuses every damaged or hostile file."""

from __future__ import annotations

import os
import random
import re
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import gguf
import pytest

from homespec.catalog.gguf_format import GGML_TYPES
from homespec.catalog.gguf_header import GgufArray, GgufHeader, read_header
from homespec.errors import ModelFormatError, ModelNotFoundError

# A tiny file by hand, so that every byte can be set wrong.


def _string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def _pair(key: str, value_type: int, value: bytes) -> bytes:
    return _string(key) + struct.pack("<I", value_type) + value


def _strings(*texts: str) -> bytes:
    return struct.pack("<IQ", 8, len(texts)) + b"".join(map(_string, texts))


def _tensor(name: str = "a", shape: tuple[int, ...] = (8,), kind: int = 0, offset: int = 0) -> bytes:
    dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return _string(name) + dimensions + struct.pack("<IQ", kind, offset)


def _file(
    pairs: tuple[bytes, ...] = (),
    tensors: tuple[bytes, ...] = (),
    data_bytes: int = 64,
    version: int = 3,
    counts: tuple[int, int] | None = None,
) -> bytes:
    num_tensors, num_pairs = counts or (len(tensors), len(pairs))
    header = struct.pack("<4sIQQ", b"GGUF", version, num_tensors, num_pairs)
    header += b"".join(pairs) + b"".join(tensors)
    return header + bytes(-len(header) % 32) + bytes(data_bytes)


def _read(tmp_path: Path, content: bytes) -> GgufHeader:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    return read_header(path)


def _refusal(tmp_path: Path, content: bytes) -> ModelFormatError:
    with pytest.raises(ModelFormatError) as caught:
        _read(tmp_path, content)
    assert caught.value.hint
    assert "model.gguf" in caught.value.message
    assert caught.value.message.endswith(".")
    return caught.value


# What it reads.


def test_reads_a_model_as_the_gguf_package_wrote_it(tiny_target: Path) -> None:
    header = read_header(tiny_target)
    reader = gguf.GGUFReader(tiny_target)
    assert header.version == 3
    assert header.architecture == "llama"
    assert header.file_bytes == tiny_target.stat().st_size
    assert header.data_offset == reader.data_offset
    assert [(t.name, list(t.shape), t.offset, t.num_bytes) for t in header.tensors] == [
        (t.name, t.shape.tolist(), t.data_offset, t.n_bytes) for t in reader.tensors
    ]
    assert set(header.metadata) == {key for key in reader.fields if not key.startswith("GGUF.")}
    for key, value in header.metadata.items():
        expected = reader.fields[key].contents()
        if not isinstance(value, GgufArray):
            assert value == expected
        elif value.holds_strings:
            assert [text.decode() for text in value.strings()] == expected
        else:
            assert value.element_type == 6 or list(value.integers()) == expected


def test_every_scalar_type_is_decoded(tmp_path: Path) -> None:
    values: dict[int, tuple[str, float]] = {
        0: ("B", 200),
        1: ("b", -3),
        2: ("H", 60_000),
        3: ("h", -9),
        4: ("I", 1 << 31),
        5: ("i", -7),
    }
    values |= {6: ("f", 0.5), 7: ("?", True), 10: ("Q", 1 << 63), 11: ("q", -(1 << 62)), 12: ("d", 0.1)}
    pairs = tuple(_pair(f"k{kind}", kind, struct.pack("<" + code, v)) for kind, (code, v) in values.items())
    header = _read(tmp_path, _file((*pairs, _pair("text", 8, _string("Grüße")))))
    assert header.metadata == {f"k{kind}": v for kind, (_, v) in values.items()} | {"text": "Grüße"}


def test_typed_access_refuses_other_kinds(tmp_path: Path) -> None:
    pairs = (
        _pair("n", 4, struct.pack("<I", 5)),
        _pair("t", 8, _string("five")),
        _pair("yes", 7, b"\1"),
        _pair("list", 9, struct.pack("<IQ2I", 4, 2, 3, 4)),
        _pair("words", 9, _strings("a", "bc")),
        _pair("scores", 9, struct.pack("<IQf", 6, 1, 0.5)),
    )
    header = _read(tmp_path, _file(pairs))
    assert header.integer("n") == 5
    assert header.text("t") == "five"
    assert header.flag("yes") is True
    numbers, words = header.array("list"), header.array("words")
    assert numbers is not None
    assert words is not None
    assert numbers.integers() == (3, 4)
    assert list(words.strings()) == [b"a", b"bc"]
    assert [header.integer("absent"), header.text("absent"), header.array("absent")] == [None] * 3
    for access in (header.flag, header.array, header.text):
        with pytest.raises(ModelFormatError, match="n must be"):
            access("n")
    for key in ("yes", "list"):
        with pytest.raises(ModelFormatError, match="must be a whole number"):
            header.integer(key)
    with pytest.raises(ModelFormatError, match="array of strings, but holds numbers"):
        list(numbers.strings())
    with pytest.raises(ModelFormatError, match="whole numbers, but holds strings"):
        words.integers()
    scores = header.array("scores")
    assert scores is not None
    with pytest.raises(ModelFormatError, match="whole numbers, but holds fractions"):
        scores.integers()


def test_a_lazy_array_notices_that_the_file_changed(tiny_target: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(tiny_target.read_bytes())
    tokens = read_header(copy).array("tokenizer.ggml.tokens")
    assert tokens is not None
    digest = tokens.sha256()
    original = read_header(tiny_target).array("tokenizer.ggml.tokens")
    assert original is not None
    assert original.sha256() == digest
    content = copy.read_bytes()
    copy.write_bytes(content[: tokens.offset] + b"\xff" * 16 + content[tokens.offset + 16 :])
    with pytest.raises(ModelFormatError, match="has changed"):
        list(tokens.strings())
    os.truncate(copy, tokens.offset + 3)
    with pytest.raises(ModelFormatError, match="has changed"):
        tokens.read_bytes()
    copy.unlink()
    with pytest.raises(ModelFormatError, match="no longer be read"):
        tokens.read_bytes()


def test_string_arrays_longer_than_the_window_are_skipped_exactly(tmp_path: Path) -> None:
    rng = random.Random(5)
    texts = ["x" * rng.choice((0, 3, 40, 700, 90_000)) for _ in range(300)]
    header = _read(
        tmp_path, _file((_pair("words", 9, _strings(*texts)), _pair("after", 4, struct.pack("<I", 7))))
    )
    words = header.array("words")
    assert words is not None
    assert [text.decode() for text in words.strings()] == texts
    assert header.integer("after") == 7


def test_block_sizes_agree_with_the_gguf_package() -> None:
    for kind, sizes in gguf.GGML_QUANT_SIZES.items():
        if kind.name != "Q8_1":  # the package counts its two halves as floats; it never stands in files
            assert GGML_TYPES[int(kind)] == (kind.name, *sizes)


def test_version_two_and_an_own_alignment(tmp_path: Path) -> None:
    alignment = _pair("general.alignment", 4, struct.pack("<I", 64))
    content = _file((alignment,), (_tensor("a", (3,)), _tensor("b", (3,), offset=64)), 200, version=2)
    header = _read(tmp_path, content)
    assert header.data_offset % 64 == 0
    assert [tensor.offset - header.data_offset for tensor in header.tensors] == [0, 64]
    assert [tensor.num_elements for tensor in header.tensors] == [3, 3]


# What it refuses.


def test_missing_files_and_directories(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="no file"):
        read_header(tmp_path / "absent.gguf")
    with pytest.raises(ModelFormatError, match="not a regular file"):
        read_header(tmp_path)
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(ModelFormatError, match="not a regular file"):
        read_header(tmp_path / "pipe.gguf")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "at least 24 bytes, the file has 0"),
        (b"GGUF\3\0\0", "at least 24 bytes, the file has 7"),
        (b"ggml" + bytes(40), "begins with b'GGUF', this one with b'ggml'"),
        (b"<!DOCTYPE html>" + bytes(40), "begins with b'GGUF'"),
        (_file(version=1), "version is 1, which llama.cpp no longer reads"),
        (_file(version=0), "version is 0"),
        (_file(version=4), "version is 4; this homespec reads up to 3"),
        (_file(version=3 << 24), "big-endian"),
        (_file(counts=(1 << 60, 0)), "claims 1,152,921,504,606,846,976 tensors"),
        (_file(counts=(0, (1 << 64) - 1)), "claims 18,446,744,073,709,551,615 metadata keys"),
        (_file(counts=(0, 40)), "metadata key '' is empty"),
        (_file((_pair("k", 4, bytes(4)), _pair("k", 4, bytes(4)))), "metadata key 'k' stands twice"),
        (_file((_pair("k", 13, bytes(4)),)), "k has the unknown value type 13"),
        (_file((_pair("k", 9, struct.pack("<IQ", 77, 1)),)), "array of the unknown value type 77"),
        (_file((_pair("k", 9, struct.pack("<IQ", 9, 1)),)), "array of arrays"),
        (_file((_pair("k", 9, struct.pack("<IQ", 4, 1 << 62)),)), "header is cut off: k reaches to byte"),
        (
            _file((_pair("k", 9, struct.pack("<IQ", 8, 1 << 62)),)),
            "k claims 4,611,686,018,427,387,904 strings",
        ),
        (_file((_pair("k", 9, struct.pack("<IQQ", 8, 2, 1 << 60)),)), "header is cut off: k reaches to byte"),
        (_file((_pair("k", 9, struct.pack("<IQQ", 8, 2, (1 << 64) - 1)),)), "header is cut off"),
        (_file((_pair("k", 8, struct.pack("<Q", 1 << 60)),)), "k claims 1,152,921,504,606,846,976 bytes"),
        (_file((_pair("general.alignment", 4, struct.pack("<I", 48)),)), "power of two, but is 48"),
        (_file((_pair("general.alignment", 7, b"\1"),)), "power of two, but is True"),
        (_file(tensors=(_tensor(), _tensor(offset=32))), "tensor 'a' stands twice"),
        (_file(tensors=(_tensor("n" * 64),)), "tensor's name claims 64 bytes; at most 63"),
        (_file(tensors=(_tensor(shape=()),)), "has 0 dimensions"),
        (_file(tensors=(_tensor(shape=(1, 1, 1, 1, 1)),)), "has 5 dimensions"),
        (_file(tensors=(_tensor(shape=(0,)),)), r"impossible shape \(0,\)"),
        (_file(tensors=(_tensor(shape=(1 << 40, 1 << 40)),)), "impossible shape"),
        (_file(tensors=(_tensor(kind=99),)), "unknown number format 99"),
        (_file(tensors=(_tensor(shape=(8,), kind=2),)), "rows of 8 elements; Q4_0 needs a multiple of 32"),
        (_file(tensors=(_tensor(), _tensor("b", offset=0))), "must start at 32, but 0 overlaps"),
        (_file(tensors=(_tensor(), _tensor("b", offset=33))), "must start at 32, but 33 is not aligned"),
        (_file(tensors=(_tensor(), _tensor("b", offset=1 << 63))), "leaves a gap"),
        (_file(tensors=(_tensor(shape=(1 << 30,)),)), "tensors need 4,294,967,360 bytes, the file has 128"),
    ],
)
def test_each_kind_of_damage_has_its_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    assert re.search(message, _refusal(tmp_path, content).message)


def test_a_cut_file_is_refused_at_every_length(tiny_target: Path, tmp_path: Path) -> None:
    content = tiny_target.read_bytes()
    header = read_header(tiny_target)
    last = header.tensors[-1]
    needed_bytes = last.offset + last.num_bytes
    lengths = {*range(0, 200), *range(200, header.data_offset, 97), header.data_offset, needed_bytes - 1}
    for length in sorted(lengths):
        error = _refusal(tmp_path, content[:length])
        cut_in_header = length < header.data_offset - 32
        expected = "at least 24 bytes" if length < 24 else "cut off" if cut_in_header else "need"
        assert expected in error.message
    assert _read(tmp_path, content[:needed_bytes]).tensors == tuple(
        type(t)(t.name, t.shape, t.type_name, t.offset, t.num_bytes) for t in header.tensors
    )


def test_a_sparse_giant_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "giant.gguf"
    # 60,000 keys, each an array that spans the window, in a file of 1 TB that occupies no disk.
    path.write_bytes(_file((_pair("k", 9, struct.pack("<IQ", 0, 1 << 29)),), counts=(0, 60_000)))
    os.truncate(path, 1 << 40)
    with pytest.raises(ModelFormatError, match="reaches beyond 268,435,456 bytes"):
        read_header(path)


# Fuzzing: mutations with fixed seeds, in a process with little memory and time.

_FUZZ = """
    import random, resource, struct, sys, time
    from pathlib import Path
    from homespec.catalog.facts import model_facts
    from homespec.catalog.gguf_header import read_header
    from homespec.errors import ModelFormatError

    resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))
    source, scratch, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    original = source.read_bytes()
    data_offset = read_header(source).data_offset
    rng = random.Random(seed)
    nasty = [0, 1, 7, 8, 9, 31, 255, 2**31, 2**32 - 1, 2**60, 2**63 - 1, 2**63, 2**64 - 1]
    refused, slowest_seconds = 0, 0.0
    for _ in range(1500):
        content = bytearray(original)
        for _ in range(rng.choice((1, 1, 2, 5))):
            # Half of the changes hit the tensor table and the first keys, where the structure is.
            places = (rng.randrange(400), rng.randrange(data_offset), data_offset - rng.randrange(1, 1500))
            position = rng.choice(places)
            kind = rng.randrange(5)
            if kind == 0:
                content[position] ^= 1 << rng.randrange(8)
            elif kind == 1:
                content[position:position + 8] = struct.pack("<Q", rng.choice(nasty))
            elif kind == 2:
                content[position:position + 4] = struct.pack("<I", rng.choice(nasty) & 0xFFFFFFFF)
            elif kind == 3:
                del content[position:position + rng.randrange(1, 40)]
            else:
                content[position:position] = rng.randbytes(rng.randrange(1, 40))
        scratch.write_bytes(content)
        start = time.perf_counter()
        try:
            header = read_header(scratch)
            for value in header.metadata.values():
                if hasattr(value, "read_bytes"):
                    list(value.strings()) if value.holds_strings else value.read_bytes()
            model_facts(header).kv_cache_bytes(4096, "f16")
        except ModelFormatError:
            refused += 1
        slowest_seconds = max(slowest_seconds, time.perf_counter() - start)
    assert slowest_seconds < 1, slowest_seconds
    print(refused)
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_headers_raise_nothing_but_a_format_error(
    tiny_target: Path, tmp_path: Path, seed: int
) -> None:
    command = [sys.executable, "-c", textwrap.dedent(_FUZZ), str(tiny_target), str(tmp_path / "m.gguf")]
    result = subprocess.run([*command, str(seed)], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 300


def test_the_worst_file_within_the_limits_takes_little_memory_and_time(tmp_path: Path) -> None:
    # As many empty strings as are allowed, and a text as long as is allowed.
    num_strings = 2_097_152
    path = tmp_path / "worst.gguf"
    words = struct.pack("<IQ", 8, num_strings) + bytes(8 * num_strings)
    path.write_bytes(
        _file((_pair("words", 9, words), _pair("text", 8, _string(b"\xff" * ((8 << 20) - 100)))))
    )
    script = """
        import resource, sys, time
        from pathlib import Path
        resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))
        from homespec.catalog.gguf_header import read_header
        from homespec.errors import ModelFormatError
        start = time.process_time()
        try:
            read_header(Path(sys.argv[1]))
        except ModelFormatError:
            pass
        assert time.process_time() - start < 1
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr


def test_reading_imports_neither_numpy_nor_llama_cpp() -> None:
    script = (
        "import sys; import homespec.catalog.gguf_header, homespec.catalog.vocabulary; "
        "assert not {'numpy', 'llama_cpp', 'gguf'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
