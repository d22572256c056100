from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from homespec.drafting.suffix import CORPUS_BYTES_PER_TOKEN, CORPUS_MAX_BYTES, SuffixDrafter
from homespec.engine.corpus import CorpusFiles, find_corpus, index_files
from homespec.engine.preparing import prepare
from homespec.engine.settings import EngineSettings
from homespec.errors import ConfigError

GIB = 1 << 30


def code_points(text: str) -> list[int]:
    return [ord(character) for character in text]


def file(path: Path, content: str | bytes = "text\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_files_come_in_the_order_in_which_they_were_named(tmp_path: Path) -> None:
    second, first = file(tmp_path / "a", "12"), file(tmp_path / "b", "345")
    assert find_corpus([first, str(second)]) == CorpusFiles((first, second), 5)
    assert find_corpus([]) == CorpusFiles()


def test_a_directory_stands_for_the_visible_texts_below_it(tmp_path: Path) -> None:
    texts = [file(tmp_path / name) for name in ("b.txt", "c.md", "a/z.py", "a/b/y.py")]
    file(tmp_path / "image", b"\x89PNG\0")
    file(tmp_path / "latin1.txt", "Füße".encode("latin-1"))
    file(tmp_path / ".hidden")
    file(tmp_path / ".git" / "config")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    assert find_corpus([tmp_path]).paths == tuple(texts)
    assert find_corpus([tmp_path / ".git"]).paths == (tmp_path / ".git" / "config",)


def test_the_home_directory_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    notes = file(tmp_path / "notes")
    assert find_corpus(["~/notes"]).paths == (notes,)
    with pytest.raises(ConfigError):
        find_corpus(["~nobody-of-this-name/notes"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        (b"text\n\0\n", "NUL bytes"),
        ("Füße".encode("latin-1"), "byte 0xFC in it is not UTF-8"),
        ("ü".encode()[:1], "byte 0xC3 in it is not UTF-8"),
        (b"a" * 100_000 + b"\xff", "byte 0xFF"),
    ],
)
def test_a_named_file_that_cannot_be_used_is_refused(
    content: bytes | None, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "notes"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=words) as caught:
        find_corpus([path])
    assert str(path) in caught.value.message
    assert caught.value.hint


def test_pipes_and_directories_without_texts_are_refused(tmp_path: Path) -> None:
    file(tmp_path / "empty" / "image", b"\0")
    with pytest.raises(ConfigError, match="without text files"):
        find_corpus([tmp_path / "empty"])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="no regular file"):
        find_corpus([tmp_path / "pipe"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused_by_name_and_skipped_otherwise(tmp_path: Path) -> None:
    texts = file(tmp_path / "a"), file(tmp_path / "b")
    texts[0].chmod(0)
    with pytest.raises(ConfigError, match="Permission denied"):
        find_corpus([texts[0]])
    assert find_corpus([tmp_path]).paths == texts[1:]


def test_no_more_is_looked_at_than_could_be_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homespec.engine.corpus._MAX_TEXT_BYTES", 10)
    for name in "abcd":
        file(tmp_path / "texts" / name, "123456")
    last = file(tmp_path / "last")
    found = find_corpus([tmp_path / "texts", last])
    assert [path.name for path in found.paths] == ["a", "b", "last"]


def test_the_index_is_that_of_the_files(tmp_path: Path) -> None:
    # Longer than what is read at once, and with a line break of Windows.
    text = "\r\n".join(f"line {number}" for number in range(20_000))
    files = find_corpus([file(tmp_path / "a", "\ufeff" + text), file(tmp_path / "b", "end")])
    index = index_files(files, code_points)
    assert list(index.tokens) == [*code_points(text.replace("\r", "")), -1, *code_points("end"), -1]
    draft = SuffixDrafter(index).propose(code_points("a line 19998"), 6, lambda _: True)
    assert draft.tokens == tuple(code_points("\nline "))


def test_a_file_that_has_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        index_files(CorpusFiles((tmp_path / "gone",), 4), code_points)


def test_the_estimate_is_an_upper_bound_and_capped(tmp_path: Path) -> None:
    files = find_corpus([file(tmp_path / "a", "word " * 4000)])
    index = index_files(files, lambda text: map(len, text.split()))
    assert len(index.tokens) * CORPUS_BYTES_PER_TOKEN < files.index_bytes < CORPUS_MAX_BYTES
    assert CorpusFiles((tmp_path,), GIB).index_bytes == CORPUS_MAX_BYTES
    assert CorpusFiles().index_bytes == 0


def prepared(target: Path, **settings: object) -> dict[str, int]:
    """What the corpus costs, by kind of option, and in the choice."""
    preparation = prepare(EngineSettings(str(target), memory_bytes=4 * GIB, **settings))  # type: ignore[arg-type]
    prices: dict[str, int] = {option.kind: option.price.corpus_bytes for option in preparation.plan.options}
    return {**prices, "chosen": preparation.option.price.corpus_bytes}


def test_the_corpus_is_priced_where_ngrams_draft(
    tiny_target: Path, tiny_near_copy: Path, tmp_path: Path
) -> None:
    corpus = (file(tmp_path / "notes", "word " * 200),)
    cost = 501 * CORPUS_BYTES_PER_TOKEN
    assert prepared(tiny_target, corpus=corpus) == {"plain": 0, "ngram": cost, "chosen": cost}
    assert prepared(tiny_target) == {"plain": 0, "ngram": 0, "chosen": 0}
    both = prepared(tiny_target, corpus=corpus, draft=f"ngram+{tiny_near_copy}")
    assert both == {"plain": 0, "ngram": cost, "draft": cost, "chosen": cost}


@pytest.mark.parametrize("settings", [{"draft": "off"}, {"draft_length": 0}, {"draft": "model"}])
def test_a_corpus_that_nobody_reads_is_told(
    settings: dict[str, object],
    tiny_target: Path,
    tiny_near_copy: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if settings.get("draft") == "model":
        settings = {"draft": str(tiny_near_copy)}
    with caplog.at_level(logging.WARNING):
        assert not any(prepared(tiny_target, corpus=("nowhere",), **settings).values())
    assert "--corpus has no effect with --draft" in caplog.text


def test_a_recurrent_target_pays_for_no_corpus(tiny_recurrent: Path, tmp_path: Path) -> None:
    assert not any(prepared(tiny_recurrent, corpus=(file(tmp_path / "notes"),)).values())
