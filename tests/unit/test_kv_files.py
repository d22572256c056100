"""KV caches on disk: what is not byte by byte what was written never reaches llama.cpp."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from homespec.engine.engine import Engine
from homespec.engine.keeping import keep_cache, resume_cache
from homespec.errors import CacheFileError, ForeignCacheError
from homespec.records import RequestParams, SamplingParams
from homespec.runtime import kv_binding
from homespec.runtime.context import LlamaContext
from homespec.runtime.kv_file import check_sealed, write_sealed
from homespec.runtime.model import LlamaModel
from homespec.sessions.kv_files import KvFiles
from tests.integration.conftest import ask_tokens

OWNER = {"model": "m", "build": "b"}
GREEDY = RequestParams(SamplingParams(temperature=0), max_tokens=24)
PROMPT = [1, *range(10, 70)]


def sealed(path: Path, state: bytes = b"state" * 1000) -> Path:
    write_sealed(path, OWNER, 7, lambda temporary: temporary.write_bytes(state))
    return path


def test_a_sealed_file_is_as_it_was_written(tmp_path: Path) -> None:
    path = sealed(tmp_path / "new" / "a.kv")
    assert check_sealed(path, OWNER) == 7
    assert path.read_bytes().startswith(b"state" * 1000)
    assert path.stat().st_mode & 0o077 == 0
    assert list(path.parent.iterdir()) == [path]


def test_what_a_killed_process_left_of_one_conversation_goes_with_the_next_write(tmp_path: Path) -> None:
    remains = tmp_path / ".s1.target.kv.0123abcd.part"
    remains.write_bytes(b"half")
    path = sealed(tmp_path / "s2.target.kv")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("owner", [{"model": "m"}, {**OWNER, "build": "c"}, {**OWNER, "more": "x"}, {}])
def test_a_foreign_file_is_refused_by_name(owner: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ForeignCacheError, match=r"another (build|more|build and another model);"):
        check_sealed(sealed(tmp_path / "a.kv"), owner)


def test_no_flipped_bit_and_no_other_length_passes(tmp_path: Path) -> None:
    path = sealed(tmp_path / "a.kv", b"state" * 20)
    content = path.read_bytes()
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        with pytest.raises(CacheFileError, match=r"damaged"):
            check_sealed(path, OWNER)
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(CacheFileError):
            check_sealed(path, OWNER)
    for more in (content + b"x", b"x" + content, content + content):
        path.write_bytes(more)
        with pytest.raises(CacheFileError):
            check_sealed(path, OWNER)
    path.write_bytes(content)
    assert check_sealed(path, OWNER) == 7


def test_a_seal_that_claims_nonsense_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.kv"
    seals: list[object] = [[], {}, {"num_state_bytes": 0}, "x", None]
    for seal in [*seals, {"num_state_bytes": 0, "sha256": 1, "owner": 3}]:
        encoded = json.dumps(seal).encode()
        path.write_bytes(encoded + len(encoded).to_bytes(4, "little") + b"HSPECKV1")
        with pytest.raises(CacheFileError):
            check_sealed(path, OWNER)
    path.write_bytes((1 << 31).to_bytes(4, "little") + b"HSPECKV1")
    with pytest.raises(CacheFileError):
        check_sealed(path, OWNER)


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = sealed(tmp_path / "a.kv")
    before = path.read_bytes()
    with pytest.raises(CacheFileError, match="could not be written"):
        write_sealed(path, OWNER, 9, lambda temporary: 0)
    with pytest.raises(CacheFileError, match="could not be written"):
        write_sealed(path, OWNER, 9, lambda temporary: temporary.write_bytes(b"half") * 2)
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheFileError):
        sealed(tmp_path / "file" / "a.kv")
    assert path.read_bytes() == before
    assert {entry.name for entry in tmp_path.iterdir()} == {"a.kv", "file"}


def test_the_files_used_longest_ago_make_room(tmp_path: Path) -> None:
    files = KvFiles(limit_bytes=100, directory=tmp_path)
    for number in range(4):
        files.path(f"s{number}").write_bytes(b"x" * 25)
        os.utime(files.path(f"s{number}"), (number, number))
    files.touch(files.path("s0"))
    assert files.num_bytes == 100
    assert files.make_room(25, "s2")  # takes its own place
    assert files.num_bytes == 100
    assert files.make_room(30, "new")
    assert {path.name for path in tmp_path.iterdir()} == {"s0.target.kv", "s3.target.kv"}
    assert not files.make_room(101, "new")
    assert files.num_bytes == 50
    files.remove("s3")
    assert [path.name for path in tmp_path.iterdir()] == ["s0.target.kv"]
    assert KvFiles(directory=tmp_path / "none").num_bytes == 0


@contextmanager
def context(path: Path, context_tokens: int = 256, kv_type: str = "f16") -> Iterator[LlamaContext]:
    with LlamaModel(path) as model:
        opened = LlamaContext(
            model, context_tokens=context_tokens, max_rows=4, num_threads=1, kv_type=kv_type
        )
        try:
            yield opened
        finally:
            opened.close()


@pytest.mark.parametrize("name", ["tiny_target", "tiny_recurrent"])
def test_a_loaded_cache_gives_the_very_logits(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(name)
    with context(path) as saved:
        saved.decode(PROMPT, rows="none")
        # The file holds what the cache does: about the size that is told beforehand.
        assert abs(saved.save(tmp_path / "a.kv", OWNER) - saved.num_state_bytes) < 2000
        expected = saved.decode([7, 8], rows="all").copy()
    with context(path, context_tokens=512) as loaded:
        loaded.decode([3, 4, 5], rows="none")
        assert loaded.load(tmp_path / "a.kv", OWNER) == len(PROMPT)
        assert list(loaded.cached_tokens) == PROMPT
        assert (loaded.decode([7, 8], rows="all") == expected).all()


def test_a_cache_that_does_not_fit_is_refused(tiny_target: Path, tmp_path: Path) -> None:
    with context(tiny_target) as saved:
        saved.decode([5] * 200, rows="none")
        saved.save(tmp_path / "a.kv", OWNER)
    with context(tiny_target, context_tokens=128) as small:
        small.decode([1, 2], rows="none")
        with pytest.raises(ForeignCacheError, match="200 tokens and the context only 128"):
            small.load(tmp_path / "a.kv", OWNER)
        assert list(small.cached_tokens) == [1, 2]  # as before: nothing was lost


def test_what_llama_cpp_refuses_leaves_an_empty_cache(tiny_target: Path, tmp_path: Path) -> None:
    sealed(tmp_path / "a.kv", b"not of llama.cpp")
    with context(tiny_target) as other:
        other.decode([1, 2], rows="none")
        with pytest.raises(CacheFileError, match="cannot read"):
            other.load(tmp_path / "a.kv", OWNER)
        assert other.num_cached_tokens == 0
        other.decode(PROMPT, rows="last")


def engine(path: Path, draft: Path | str = "off") -> Engine:
    return Engine(str(path), draft=str(draft), draft_length=3, context_tokens=256, calibrate=False)


def test_an_engine_goes_on_where_another_ended(
    tiny_target: Path, tiny_near_copy: Path, tmp_path: Path
) -> None:
    files = KvFiles(directory=tmp_path)
    with engine(tiny_target, tiny_near_copy) as first:
        reply = ask_tokens(first, PROMPT, GREEDY)
        conversation = [*PROMPT, *reply.token_ids, 40, 41, 42]
        assert keep_cache(first, files, "s") is None
        expected = ask_tokens(first, conversation, GREEDY)
    assert {path.name for path in tmp_path.iterdir()} == {"s.target.kv", "s.draft.kv"}
    with engine(tiny_target, tiny_near_copy) as second:
        resumed = resume_cache(second, files, "s")
        assert resumed.num_tokens == len(PROMPT) + len(reply.token_ids) - 1
        assert resumed.notices == ()
        found = ask_tokens(second, conversation, GREEDY)
        assert found.token_ids == expected.token_ids
        assert found.stats.reused_prompt_tokens == resumed.num_tokens
        assert found.stats.prefilled_tokens == len(conversation) - resumed.num_tokens == 4
        # The draft model's cache came along: the same was drafted and accepted.
        assert found.stats.num_accepted_tokens == expected.stats.num_accepted_tokens
        assert resume_cache(second, files, "other").notices == ()


def test_foreign_and_damaged_caches_are_told_and_not_used(
    tiny_target: Path, tiny_near_copy: Path, tmp_path: Path
) -> None:
    files = KvFiles(directory=tmp_path)
    with engine(tiny_target) as first:
        ask_tokens(first, PROMPT, GREEDY)
        keep_cache(first, files, "s")
    path = files.path("s")
    with engine(tiny_near_copy) as other:
        resumed = resume_cache(other, files, "s")
        assert resumed.num_tokens == 0
        assert "another model" in resumed.notices[0]
        assert path.exists()  # whose it is may come back
        assert len(ask_tokens(other, PROMPT, GREEDY).token_ids) > 0
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with engine(tiny_target) as again:
        resumed = resume_cache(again, files, "s")
        assert resumed.num_tokens == 0
        assert "damaged" in resumed.notices[0]
        assert not path.exists()


def test_a_cache_beyond_the_limit_or_the_disk_is_not_kept_and_said(
    tiny_target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine(tiny_target) as opened:
        opened.forget()
        assert keep_cache(opened, KvFiles(directory=tmp_path), "s") is None
        assert list(tmp_path.iterdir()) == []  # nothing to keep
        ask_tokens(opened, PROMPT, GREEDY)
        told = keep_cache(opened, KvFiles(limit_bytes=1000, directory=tmp_path), "s")
        assert told is not None
        assert "1 kB" in told
        assert list(tmp_path.iterdir()) == []
        assert "could not be written" in (
            keep_cache(opened, KvFiles(directory=Path("/dev/full/kv")), "s") or ""
        )
        # What llama.cpp does on a full disk: it gives up in the middle.
        monkeypatch.setattr(kv_binding, "save_sequence", lambda context, path, tokens: 0)
        assert "disk is full" not in (told := keep_cache(opened, KvFiles(directory=tmp_path), "s") or "")
        assert "could not be written" in told
        assert list(tmp_path.iterdir()) == []


LOADER = """
import sys
from pathlib import Path
from homespec.engine.keeping import resume_cache
from homespec.sessions.kv_files import KvFiles
from tests.unit.test_kv_files import engine
with engine(Path(sys.argv[1])) as opened:
    for directory in sys.argv[2:]:
        resumed = resume_cache(opened, KvFiles(directory=Path(directory)), "s")
        print(resumed.num_tokens, len(resumed.notices))
"""


def test_no_damage_ends_the_process(tiny_target: Path, tmp_path: Path) -> None:
    with engine(tiny_target) as first:
        ask_tokens(first, PROMPT, GREEDY)
        keep_cache(first, KvFiles(directory=tmp_path), "s")
    content = KvFiles(directory=tmp_path).path("s").read_bytes()
    chance = random.Random(0)
    directories = []
    for number in range(30):
        changed = bytearray(content)
        # Most crashes come from the counts at the beginning.
        first_byte = chance.randrange(64 if number % 2 else len(content))
        changed[first_byte : first_byte + 4] = chance.randbytes(4)
        if number % 3 == 0:
            del changed[chance.randrange(len(changed)) :]
        directory = tmp_path / str(number)
        directory.mkdir()
        KvFiles(directory=directory).path("s").write_bytes(changed)
        directories.append(str(directory))
    command = [sys.executable, "-c", LOADER, str(tiny_target), *directories]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["0 1"] * 30
