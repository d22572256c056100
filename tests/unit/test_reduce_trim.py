"""Trimming a vocabulary: the file that is written, and how it is read as a draft model."""

from __future__ import annotations

import errno
from collections import Counter
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType

from homespec.catalog.facts import model_facts
from homespec.catalog.gguf_header import read_header
from homespec.catalog.trimmed import read_trim
from homespec.catalog.vocabulary import check_vocabularies
from homespec.errors import ConfigError, DiskSpaceError, ModelFormatError, VocabMismatchError
from homespec.reduce.gguf_file import GgufModel, read_gguf
from homespec.reduce.trim import TOKENS_MULTIPLE, count_tokens, trim
from homespec.runtime.model import LlamaModel
from tests.support import tiny_families, tiny_gguf
from tests.support.opened import logits_after, opened
from tests.support.tiny_families import ARCHITECTURES, MORE_WORDS, WORDS

NUM_TOKENS = 320  # of some 450


def _tokens(model: GgufModel) -> list[bytes]:
    return [bytes(text) for text in model.array("tokenizer.ggml.tokens")]  # type: ignore[arg-type]


def _ids(model: GgufModel, words: tuple[str, ...]) -> list[int]:
    tokens = _tokens(model)
    return [tokens.index(word.encode()) for word in words]


def _counts(model: GgufModel) -> Counter[int]:
    """The words that tests keep, and the pieces that they are merged from."""
    prefixes = tuple(word[:end] for word in WORDS for end in range(2, len(word) + 1))
    return Counter(_ids(model, prefixes))


@pytest.fixture(scope="module", params=ARCHITECTURES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model and its trimmed copy."""
    directory = tmp_path_factory.mktemp(request.param)
    source = tiny_families.write(directory / "source.gguf", request.param)
    trim(source, directory / "trimmed.gguf", _counts(read_gguf(source)), NUM_TOKENS)
    return source, directory / "trimmed.gguf"


def test_the_file_is_an_ordinary_model_with_a_vocabulary_of_its_own(pair: tuple[Path, Path]) -> None:
    source, trimmed = (read_gguf(path) for path in pair)
    assert read_header(pair[1]).architecture == source.architecture
    with LlamaModel(pair[1]) as model:
        vocabulary = model.vocabulary
        assert vocabulary.size == NUM_TOKENS
        text = "the plum and\nthe pear, returning näïve ☃"
        assert vocabulary.text(vocabulary.tokenize(text)) == text
        kept_word = vocabulary.tokenize("return")
        assert [vocabulary.token_text(token) for token in kept_word] == ["return"]
        assert vocabulary.token_text(vocabulary.bos_token) == "<|im_start|>"
        assert vocabulary.token_text(vocabulary.eos_token) == "<|im_end|>"
    source_tokens = _tokens(source)
    kept_ids = [int(token) for token in trimmed.array("homespec.trim.token_ids")]
    assert _tokens(trimmed) == [source_tokens[token] for token in kept_ids]
    assert kept_ids == sorted(kept_ids)
    assert len(source_tokens) - 1 not in kept_ids  # unused
    assert set(_ids(source, WORDS)) <= set(kept_ids)


def test_merges_are_those_whose_parts_and_result_are_kept(pair: tuple[Path, Path]) -> None:
    trimmed = read_gguf(pair[1])
    merges = [bytes(merge) for merge in trimmed.array("tokenizer.ggml.merges")]  # type: ignore[arg-type]
    tokens = set(_tokens(trimmed))
    parts = [tuple(merge.split(b" ")) for merge in merges]
    assert all({first, second, first + second} <= tokens for first, second in parts)
    assert bool(merges) == trimmed.architecture.startswith("qwen")
    assert (b"retur", b"n") in parts or not merges


def test_as_a_drafter_it_reads_every_token_and_its_logits_are_the_source_s(pair: tuple[Path, Path]) -> None:
    source, trimmed = pair
    model = read_gguf(source)
    known, unknown = _ids(model, WORDS[:4]), _ids(model, MORE_WORDS[-2:])
    layout = read_trim(read_header(trimmed))
    assert layout is not None
    assert not set(unknown) & set(layout.token_ids)
    for tokens in (known, unknown, [*known, *unknown, *known]):
        expected = logits_after(source, tokens)
        found = logits_after(trimmed, tokens, as_drafter=True)
        assert found.shape == expected.shape
        kept = list(layout.token_ids)
        np.testing.assert_allclose(found[:, kept], expected[:, kept], rtol=0, atol=2e-3)
        others = np.setdiff1d(np.arange(layout.num_source_tokens), kept)
        assert np.isneginf(found[:, others]).all()


def test_decodes_of_known_and_unknown_tokens_follow_each_other(pair: tuple[Path, Path]) -> None:
    source, trimmed = pair
    model = read_gguf(source)
    tokens = [*_ids(model, WORDS[:2]), *_ids(model, MORE_WORDS[-2:]), *_ids(model, WORDS[2:5])]
    with opened(trimmed, as_drafter=True) as context:
        at_once = context.decode(tokens, rows="last")[0].copy()
        context.truncate(1)
        for token in tokens[1:]:
            last = context.decode([token], rows="last")[0]
        assert context.cached_tokens == tokens
        finite = np.isfinite(at_once)
        np.testing.assert_allclose(last[finite], at_once[finite], rtol=0, atol=2e-3)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q5_1"])
@pytest.mark.parametrize("tied", [True, False])
def test_rows_of_every_format_are_gathered_as_they_are(tmp_path: Path, kind: str, tied: bool) -> None:
    embedding_type = GGMLQuantizationType[kind]
    source = tiny_families.write(tmp_path / "s.gguf", "qwen2", tied=tied, embedding_type=embedding_type)
    trim(source, tmp_path / "t.gguf", _counts(read_gguf(source)), NUM_TOKENS)
    before = {tensor.name: tensor for tensor in read_gguf(source).tensors}
    after = {tensor.name: tensor for tensor in read_gguf(tmp_path / "t.gguf").tensors}
    assert before.keys() == after.keys()
    layout = read_trim(read_header(tmp_path / "t.gguf"))
    assert layout is not None
    for name, tensor in after.items():
        rows = before[name].data
        per_token = name in ("token_embd.weight", "output.weight")
        expected = rows[list(layout.token_ids)] if per_token else rows
        assert tensor.type == before[name].type
        assert tensor.data.tobytes() == expected.tobytes()
    model = read_gguf(source)
    tokens = [*_ids(model, WORDS[:3]), *_ids(model, MORE_WORDS[-3:])]
    kept = list(layout.token_ids)
    found = logits_after(tmp_path / "t.gguf", tokens, as_drafter=True)[:, kept]
    np.testing.assert_allclose(found, logits_after(source, tokens)[:, kept], rtol=0, atol=0.05)


def test_equal_inputs_give_equal_bytes(pair: tuple[Path, Path], tmp_path: Path) -> None:
    source, trimmed = pair
    counts = _counts(read_gguf(source))
    shuffled = dict(reversed(counts.items()))
    trim(source, tmp_path / "again.gguf", shuffled, NUM_TOKENS)
    assert (tmp_path / "again.gguf").read_bytes() == trimmed.read_bytes()


def test_the_file_says_how_it_was_made(pair: tuple[Path, Path]) -> None:
    source, trimmed = pair
    metadata = {key: entry.value for key, entry in read_gguf(trimmed).metadata.items()}
    num_source = len(read_gguf(source).array("tokenizer.ggml.tokens"))
    assert metadata["homespec.source.name"] == "source"
    assert len(str(metadata["homespec.source.sha256"])) == 64
    assert metadata["homespec.recipe"] == [f"trim: {NUM_TOKENS} of {num_source} tokens".encode()]
    assert metadata["homespec.version"]


def test_numbers_of_tokens_are_rounded_up(tmp_path: Path) -> None:
    source = tiny_families.write(tmp_path / "s.gguf", "llama")
    trim(source, tmp_path / "t.gguf", {}, NUM_TOKENS - TOKENS_MULTIPLE + 1)
    assert model_facts(read_header(tmp_path / "t.gguf")).vocab_size == NUM_TOKENS


@pytest.mark.parametrize("num_tokens", [0, 100, 10_000])
def test_impossible_numbers_of_tokens_are_refused(tmp_path: Path, num_tokens: int) -> None:
    source = tiny_families.write(tmp_path / "s.gguf", "llama")
    with pytest.raises(ConfigError, match="must be kept"):
        trim(source, tmp_path / "t.gguf", {}, num_tokens)
    assert [path.name for path in tmp_path.iterdir()] == ["s.gguf"]


def test_without_any_merge_left_it_is_refused(tmp_path: Path) -> None:
    source = tiny_families.write(tmp_path / "s.gguf", "qwen2", num_padding=300)
    padding = Counter(range(len(_tokens(read_gguf(source))))[-300:])
    with pytest.raises(ConfigError, match="leave no merge"):
        trim(source, tmp_path / "t.gguf", padding, NUM_TOKENS)


def test_other_architectures_are_refused_by_name(tiny_recurrent: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match=r"architecture mamba; .* gemma3, llama, qwen2, qwen3"):
        trim(tiny_recurrent, tmp_path / "t.gguf", {}, NUM_TOKENS)


def test_a_trimmed_file_is_not_trimmed_again(pair: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match="trimmed before"):
        trim(pair[1], tmp_path / "t.gguf", {}, NUM_TOKENS - TOKENS_MULTIPLE)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    source = tiny_families.write(tmp_path / "s.gguf", "qwen2")
    data = source.read_bytes()
    for size in (0, 3, 30, 3000, 10_000, len(data) - 64):
        (tmp_path / "cut.gguf").write_bytes(data[:size])
        with pytest.raises(ModelFormatError, match=r"cut\.gguf"):
            trim(tmp_path / "cut.gguf", tmp_path / "t.gguf", {}, NUM_TOKENS)


@pytest.mark.parametrize(
    ("failure", "error"),
    [(OSError(errno.ENOSPC, "no space"), DiskSpaceError), (KeyboardInterrupt("t.gguf"), KeyboardInterrupt)],
)
def test_a_full_disk_or_an_end_in_between_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, error: type[BaseException]
) -> None:
    source = tiny_families.write(tmp_path / "s.gguf", "llama")
    destination = tmp_path / "t.gguf"
    destination.write_bytes(b"before")

    def fail(self: gguf.GGUFWriter, **_: object) -> None:
        raise failure

    monkeypatch.setattr(gguf.GGUFWriter, "write_tensors_to_file", fail)
    with pytest.raises(error, match=r"t\.gguf"):
        trim(source, destination, {}, NUM_TOKENS)
    assert destination.read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.gguf", "t.gguf"]


def test_counting(tmp_path: Path) -> None:
    counts = count_tokens(["aab", "b"], lambda text: [ord(letter) for letter in text], [[ord("b"), 7]])
    assert counts == {ord("a"): 2, ord("b"): 3, 7: 1}


def test_the_gate_accepts_it_for_its_source_and_for_padded_relatives(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    source, trimmed = (read_header(path) for path in pair)
    num_source = len(_tokens(read_gguf(pair[0])))
    assert check_vocabularies(source, trimmed) == num_source
    for num_padding, expected in ((2, num_source - 3), (9, num_source)):
        path = tmp_path / f"{num_padding}.gguf"
        relative = tiny_families.write(path, source.architecture, num_padding=num_padding)
        assert check_vocabularies(read_header(relative), trimmed) == expected


def test_the_gate_refuses_it_for_others(tiny_target: Path, tmp_path: Path) -> None:
    source = tiny_families.write(tmp_path / "s.gguf", "llama")
    trim(source, tmp_path / "t.gguf", {}, NUM_TOKENS)
    with pytest.raises(VocabMismatchError) as caught:
        check_vocabularies(read_header(tiny_target), read_header(tmp_path / "t.gguf"))
    assert caught.value.first_difference == 1  # "<s>" to the target, a byte to the source
    assert caught.value.target_text == "<s>"


def test_lost_embedding_rows_are_noticed(pair: tuple[Path, Path], tmp_path: Path) -> None:
    data = pair[1].read_bytes()
    (tmp_path / "lost.gguf").write_bytes(data[: read_header(pair[1]).tensors_end])
    with pytest.raises(ModelFormatError, match="lost its embedding rows"):
        read_trim(read_header(tmp_path / "lost.gguf"))


def test_its_price_counts_the_rows_that_a_history_can_touch(tmp_path: Path) -> None:
    source = tiny_gguf.target(tmp_path / "s.gguf")
    trim(source, tmp_path / "t.gguf", {}, NUM_TOKENS)
    facts, original = (model_facts(read_header(tmp_path / name)) for name in ("t.gguf", "s.gguf"))
    rows_bytes = original.vocab_size * tiny_gguf.EMBEDDING_LENGTH * 4
    assert facts.source_rows_bytes == rows_bytes
    assert facts.lookup_bytes(2) == 2 * 4096 < rows_bytes
    assert facts.lookup_bytes(100_000) == rows_bytes
    assert facts.mapped_bytes < original.mapped_bytes  # the rows behind the tensors are not mapped whole
    assert facts.vocab_size == NUM_TOKENS
    assert facts.made_from == "s"
    assert original.lookup_bytes(100_000) == 0
    assert original.made_from is None
