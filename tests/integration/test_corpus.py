"""N-gram lookup in texts of the user's, on a real model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from homespec.drafting.suffix import SuffixIndex
from homespec.engine.corpus import CorpusFiles, index_files
from homespec.engine.engine import Engine
from homespec.errors import DecodeAbortedError
from homespec.records import RequestParams, SamplingParams
from homespec.runtime.binding import AbortFlag
from tests.integration.conftest import SMOLLM2, ask, require

pytestmark = pytest.mark.model

Tokenize = Callable[[str], list[int]]
GREEDY = RequestParams(SamplingParams(temperature=0), max_tokens=64)
PROMPT = "Why does the moon have phases?"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    require(SMOLLM2)
    path = tmp_path / "notes"
    path.write_text("The moon has phases.", encoding="utf-8")
    return path


def test_a_reply_that_quotes_the_corpus_is_drafted_from_it(
    plain: Engine, ngram: Engine, tmp_path: Path
) -> None:
    expected = ask(plain, PROMPT, GREEDY)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "moon.md").write_text(f"# The moon\n\n{expected.text}\n", encoding="utf-8")
    (tmp_path / "notes" / "moon.png").write_bytes(b"\0")
    without = ask(ngram, PROMPT, GREEDY)
    with Engine(SMOLLM2, draft="ngram", draft_length=5, corpus=(tmp_path / "notes",)) as engine:
        found = [ask(engine, PROMPT, GREEDY) for _ in range(2)]
    for reply in found:
        assert reply.token_ids == without.token_ids == expected.token_ids
        # Nearly all of it is quoted, in drafts of five.
        assert reply.stats.num_accepted_tokens > 40 > without.stats.num_accepted_tokens
        assert reply.stats.num_steps < 25


@pytest.mark.parametrize(("draft", "times"), [("ngram", 1), ("off", 0)])
def test_the_corpus_is_indexed_once_and_only_for_ngrams(
    draft: str, times: int, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[CorpusFiles] = []

    def count(files: CorpusFiles, tokenize: Tokenize) -> SuffixIndex:
        found.append(files)
        return index_files(files, tokenize)

    monkeypatch.setattr("homespec.engine.engine.index_files", count)
    with Engine(SMOLLM2, draft=draft, draft_length=5, corpus=(notes,)) as engine:
        for _ in range(2):
            ask(engine, PROMPT, replace(GREEDY, max_tokens=2))
    assert len(found) == times


def test_indexing_can_be_stopped(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    abort = AbortFlag()

    def stop(files: CorpusFiles, tokenize: Tokenize) -> SuffixIndex:
        abort.set()
        return index_files(files, tokenize)

    monkeypatch.setattr("homespec.engine.engine.index_files", stop)
    with pytest.raises(DecodeAbortedError):
        Engine(SMOLLM2, draft="ngram", draft_length=5, corpus=(notes,), abort=abort)
