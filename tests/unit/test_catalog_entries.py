"""The catalogue: what ships, what users add, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from homespec.catalog.entries import (
    FileSource,
    HubSource,
    ModelEntry,
    PypiSource,
    load_catalog,
    read_entries,
    shipped_directory,
)
from homespec.errors import CatalogEntryError
from tests.support.fake_index import as_toml, entry_for

SHIPPED = tuple(load_catalog(Path("/nowhere")).values())
GOOD = as_toml(entry_for(b"content"), ['kind = "hf"\nrepo = "a/b"\nfile = "c.gguf"'])


def written(directory: Path, text: str, name: str = "own.toml") -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def test_what_ships() -> None:
    assert {entry.name for entry in SHIPPED} >= {
        "smollm2-135m-instruct",
        "qwen2.5-coder-1.5b-instruct",
        "qwen2.5-coder-0.5b-instruct",
        "gemma3-270m",
    }
    assert all(
        path.stem in {entry.family for entry in SHIPPED} for path in shipped_directory().glob("*.toml")
    )


@pytest.mark.parametrize("entry", SHIPPED, ids=lambda entry: entry.name)
def test_shipped_entries_are_sound(entry: ModelEntry) -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", entry.sha256)
    assert entry.sources
    for source in entry.sources:
        if isinstance(source, PypiSource):
            assert sum(part.size_bytes for part in source.parts) == entry.size_bytes
            assert all(re.fullmatch(r"[0-9a-f]{64}", part.sha256) for part in source.parts)
            assert len({part.package for part in source.parts}) == len(source.parts)


@pytest.mark.parametrize("entry", [e for e in SHIPPED if e.pair], ids=lambda entry: entry.name)
def test_shipped_pairs_exist_and_are_of_one_family(entry: ModelEntry) -> None:
    draft = next(other for other in SHIPPED if other.name == entry.pair)
    assert (entry.role, draft.role) == ("target", "draft")
    assert draft.family == entry.family
    assert draft.size_bytes < entry.size_bytes


def test_sources_in_the_order_of_the_file(tmp_path: Path) -> None:
    sources = [
        'kind = "pypi"\nparts = [{ package = "a", version = "1", member = "m", size_bytes = 7, '
        f'sha256 = "{"0" * 64}" }}]',
        'kind = "hf"\nrepo = "a/b"\nfile = "c.gguf"\nrevision = "v1"',
        'kind = "file"\npath = "near.gguf"',
        'kind = "file"\npath = "file:///far%20away/x.gguf"',
    ]
    (entry,) = read_entries(written(tmp_path, as_toml(entry_for(b"content"), sources)))
    assert [type(source) for source in entry.sources] == [PypiSource, HubSource, FileSource, FileSource]
    assert entry.sources[1] == HubSource("a/b", "c.gguf", "v1")
    assert entry.sources[2] == FileSource(tmp_path / "near.gguf")
    assert entry.sources[3] == FileSource(Path("/far away/x.gguf"))


def test_own_entries_are_added_and_replace_shipped_ones(tmp_path: Path) -> None:
    own = GOOD.replace('"tiny"', '"smollm2-135m-instruct"', 1) + GOOD
    written(tmp_path, own)
    catalog = load_catalog(tmp_path)
    assert catalog["smollm2-135m-instruct"].licence == "MIT"
    assert catalog["tiny"].sources == (HubSource("a/b", "c.gguf"),)
    assert list(catalog) == sorted(catalog)


def test_own_entries_are_found_in_the_xdg_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "homespec" / "models").mkdir(parents=True)
    written(tmp_path / "homespec" / "models", GOOD)
    assert "tiny" in load_catalog()


@pytest.mark.parametrize("second", ["own.toml", "other.toml"])
def test_the_same_name_twice_is_refused(tmp_path: Path, second: str) -> None:
    first = written(tmp_path, GOOD)
    written(tmp_path, first.read_text() + GOOD if second == "own.toml" else GOOD, second)
    with pytest.raises(CatalogEntryError, match="both describe tiny"):
        load_catalog(tmp_path)


def test_a_pair_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD.replace('summary = "', 'pair = "ghost"\nsummary = "'))
    with pytest.raises(CatalogEntryError, match=rf"{re.escape(str(path))} \(tiny\): pair names ghost"):
        load_catalog(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('family = "tiny"', 'family = "tiny"\nfamilly = "x"', r"\(tiny\): familly is not a known key"),
        ("[[model]]", 'models = "x"\n[[model]]', "models is not a known key"),
        ('kind = "hf"', 'kind = "hf"\nbranch = "x"', r"\(tiny sources 1\): branch is not a known key"),
        ('family = "tiny"\n', "", r"\(tiny\): family is missing"),
        ('role = "test"', 'role = "hero"', "role must be one of target, draft, test, but is 'hero'"),
        ('"tiny"', '"../tiny"', "name has the unusable value '../tiny'"),
        ("size_bytes = 7", 'size_bytes = "7"', "size_bytes must be a whole number, but is '7'"),
        ("size_bytes = 7", "size_bytes = 0", "size_bytes must be a whole number above zero, but is 0"),
        ("size_bytes = 7", "size_bytes = true", "size_bytes must be a whole number above zero, but is True"),
        ('sha256 = "', 'sha256 = "XY', "sha256 has the unusable value"),
        ('kind = "hf"', 'kind = "ftp"', "kind must be pypi, hf, file or made, but is 'ftp'"),
        ('kind = "hf"\nrepo = "a/b"\nfile = "c.gguf"', 'kind = "file"\npath = "https://x/y"', "path must be"),
        ("[[model]]", "[[model]", "is not valid TOML"),
        ("[[model.sources]]", "[model.source]", "sources is missing"),
        (
            'kind = "hf"\nrepo = "a/b"\nfile = "c.gguf"',
            'kind = "pypi"\nparts = [{ package = "a", version = "1", member = "m", size_bytes = 3, '
            f'sha256 = "{"0" * 64}" }}]',
            "size_bytes is 7, but the parts have 3 together",
        ),
        (
            'kind = "hf"\nrepo = "a/b"\nfile = "c.gguf"',
            'kind = "pypi"\nparts = [{ package = "--index-url=x", version = "1" }]',
            r"\(tiny sources 1 parts 1\): package has the unusable value",
        ),
        ('kind = "hf"\nrepo = "a/b"\nfile = "c.gguf"', 'kind = "pypi"\nparts = []', "parts must be a list"),
    ],
)
def test_a_malformed_entry_is_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in GOOD
    path = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(CatalogEntryError, match=complaint) as caught:
        read_entries(path)
    assert str(path) in caught.value.message
    assert caught.value.hint
