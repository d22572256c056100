"""The vocabulary gate."""

from __future__ import annotations

from pathlib import Path

import gguf
import pytest

from homespec.catalog.gguf_header import GgufHeader, read_header
from homespec.catalog.vocabulary import check_vocabularies
from homespec.errors import ModelFormatError, VocabMismatchError

_TOKENS = ["<unk>", "a", "b", "ü", "ab", "<end>"]


def _header(
    path: Path,
    tokens: list[str] | None,
    *,
    model: str = "gpt2",
    pre: str | None = "qwen2",
    unused: tuple[int, ...] = (),
    eos_id: int = 5,
) -> GgufHeader:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    if pre is not None:
        writer.add_tokenizer_pre(pre)
    if tokens is not None:
        writer.add_token_list(tokens)
        kinds = [gguf.TokenType.UNUSED if i in unused else gguf.TokenType.NORMAL for i in range(len(tokens))]
        writer.add_token_types(kinds)
    writer.add_eos_token_id(eos_id)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return read_header(path)


def test_equal_vocabularies_share_every_id(tiny_target: Path, tiny_near_copy: Path) -> None:
    target = read_header(tiny_target)
    tokens = target.array("tokenizer.ggml.tokens")
    assert tokens is not None
    assert check_vocabularies(target, read_header(tiny_near_copy)) == tokens.num_elements


def test_the_first_difference_is_named(tiny_target: Path, tiny_stranger: Path) -> None:
    with pytest.raises(VocabMismatchError, match="must speak the target's tokens") as caught:
        check_vocabularies(read_header(tiny_target), read_header(tiny_stranger))
    # Control and byte tokens and the space agree; then one has "!" where the other has "a".
    assert caught.value.first_difference == 260
    assert (caught.value.target_text, caught.value.draft_text) == ("!", "a")
    assert "260" in caught.value.message
    assert caught.value.hint


def test_padded_tails_are_tolerated_on_either_side(tmp_path: Path) -> None:
    short = _header(tmp_path / "short.gguf", _TOKENS)
    padded = _header(tmp_path / "padded.gguf", [*_TOKENS, "[PAD6]", "[PAD7]"])
    assert check_vocabularies(short, padded) == len(_TOKENS)
    assert check_vocabularies(padded, short) == len(_TOKENS)


def test_a_difference_before_a_padded_tail_is_found(tmp_path: Path) -> None:
    short = _header(tmp_path / "short.gguf", _TOKENS)
    other = _header(tmp_path / "other.gguf", [*_TOKENS[:3], "u", *_TOKENS[4:], "[PAD6]"])
    with pytest.raises(VocabMismatchError) as caught:
        check_vocabularies(other, short)
    assert (caught.value.first_difference, caught.value.target_text, caught.value.draft_text) == (3, "u", "ü")


def test_places_that_one_model_does_not_use_may_differ(tmp_path: Path) -> None:
    base = _header(tmp_path / "base.gguf", [*_TOKENS, "[PAD6]", "z"], unused=(6,))
    tuned = _header(tmp_path / "tuned.gguf", [*_TOKENS, "<|tool|>", "z"])
    assert check_vocabularies(tuned, base) == len(_TOKENS) + 2
    assert check_vocabularies(base, tuned) == len(_TOKENS) + 2


def test_special_ids_may_differ(tmp_path: Path) -> None:
    base = _header(tmp_path / "base.gguf", _TOKENS, eos_id=0)
    instruct = _header(tmp_path / "instruct.gguf", _TOKENS, eos_id=5)
    assert check_vocabularies(instruct, base) == len(_TOKENS)


def test_kinds_of_tokenizer_are_compared_where_both_name_one(tmp_path: Path) -> None:
    target = _header(tmp_path / "target.gguf", _TOKENS)
    with pytest.raises(VocabMismatchError, match=r"tokenizer, 'gpt2', but draft\.gguf has 'llama'"):
        check_vocabularies(target, _header(tmp_path / "draft.gguf", _TOKENS, model="llama"))
    with pytest.raises(VocabMismatchError, match=r"pre-tokenizer, 'qwen2', but draft\.gguf has 'smollm'"):
        check_vocabularies(target, _header(tmp_path / "draft.gguf", _TOKENS, pre="smollm"))
    silent = _header(tmp_path / "silent.gguf", _TOKENS, pre=None)
    assert check_vocabularies(target, silent) == len(_TOKENS)


def test_a_file_without_a_vocabulary_is_refused(tmp_path: Path) -> None:
    target = _header(tmp_path / "target.gguf", _TOKENS)
    with pytest.raises(ModelFormatError, match=r"empty\.gguf holds no vocabulary"):
        check_vocabularies(target, _header(tmp_path / "empty.gguf", None))
