"""Conversations on disk: locks, damage, a disk that refuses, finding and removing."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from homespec.cli.main import cli
from homespec.errors import SessionBusyError, SessionFormatError, SessionNotFoundError
from homespec.records import GenerationStats, PlanSummary, Reply
from homespec.sessions.conversation import SUMMARY_QUESTION
from homespec.sessions.events import (
    AssistantTurn,
    Clear,
    ContextCut,
    SettingsChange,
    Start,
    SystemChange,
    TitleChange,
    Undo,
    UserTurn,
    to_json,
)
from homespec.sessions.export import to_json as export_json
from homespec.sessions.export import to_markdown
from homespec.sessions.kv_files import KvFiles
from homespec.sessions.log import SessionLog, parse, read
from homespec.sessions.store import find_session, list_sessions, remove_session
from homespec.sessions.thinking import without_thinking

PLAN = PlanSummary(True, "on", "", 4096, 5)


def led(directory: Path, *texts: str) -> SessionLog:
    """A conversation in which every message was answered by its capitals."""
    log = SessionLog.create("small", "Be brief.", directory=directory)
    for text in texts:
        log.append(UserTurn(text))
        log.append(AssistantTurn(text.upper(), (1, 2)))
    return log


def contents(log: SessionLog) -> list[str]:
    return [message.content for message in log.conversation.messages]


def test_nothing_is_written_before_something_is_said(tmp_path: Path) -> None:
    with SessionLog.create("small", directory=tmp_path) as log:
        log.append(SystemChange("Be kind."))
        assert list(tmp_path.iterdir()) == []
        log.append(UserTurn("Hello"))
        assert read(log.path).conversation == log.conversation
        assert contents(log) == ["Be kind.", "Hello"]
    assert log.path.stat().st_mode & 0o077 == 0


def test_a_reply_is_kept_with_its_figures(tmp_path: Path) -> None:
    stats = GenerationStats(prompt_tokens=9, prefilled_tokens=4, tokens_per_second=2.5)
    reply = Reply("Hi", (5, 6), "stop", "small", "ngram", "greedy", 0, stats, PLAN)
    with SessionLog.create("small", directory=tmp_path) as log:
        log.append(UserTurn("Hello"))
        log.append(AssistantTurn.of(reply))
        found = read(log.path).conversation.turns[0].assistant
    assert found == AssistantTurn.of(reply)
    assert found.stats["prefilled_tokens"] == 4
    assert (found.model, found.drafter, found.finish_reason) == ("small", "ngram", "stop")


def test_a_regenerated_reply_takes_the_place_of_the_first(tmp_path: Path) -> None:
    with led(tmp_path, "a", "b") as log:
        assert [message.content for message in log.conversation.prompt_again()][1:] == ["a", "A", "b"]
        with pytest.raises(ValueError, match="without a question"):
            log.append(AssistantTurn("?"))
        log.append(AssistantTurn("Better", regenerated=True))
        assert contents(log)[1:] == ["a", "A", "b", "Better"]
        assert read(log.path).conversation == log.conversation


def test_undo_and_clear(tmp_path: Path) -> None:
    with led(tmp_path, "a", "b") as log:
        log.append(UserTurn("c"))
        log.append(Undo())
        assert contents(log)[1:] == ["a", "A", "b", "B"]
        log.append(Undo())
        assert contents(log)[1:] == ["a", "A"]
        log.append(Clear())
        assert contents(log) == ["Be brief."]
        log.append(Undo())
        assert contents(log) == ["Be brief."]
        assert log.conversation.title == "a"


def test_a_message_without_an_answer_is_shown_only_while_it_is_the_last(tmp_path: Path) -> None:
    with led(tmp_path, "a") as log:
        log.append(UserTurn("lost"))
        assert not log.conversation.is_answered
        assert contents(log)[1:] == ["a", "A", "lost"]
        log.append(UserTurn("b"))
        assert contents(log)[1:] == ["a", "A", "b"]
        assert [turn.user.text for turn in log.conversation.turns] == ["a", "lost", "b"]


def test_a_cut_hides_the_oldest_turns_and_undo_below_it_brings_them_back(tmp_path: Path) -> None:
    with led(tmp_path, "a", "b", "c") as log:
        log.append(ContextCut(2, "They said a and b."))
        assert contents(log)[1:] == [SUMMARY_QUESTION, "They said a and b.", "c", "C"]
        log.append(Undo())
        assert contents(log)[1:] == [SUMMARY_QUESTION, "They said a and b."]
        log.append(Undo())
        assert contents(log)[1:] == ["a", "A"]
        with pytest.raises(ValueError, match="more turns"):
            log.append(ContextCut(2))


def test_thinking_is_left_out_of_the_context_unless_it_is_to_stay(tmp_path: Path) -> None:
    with SessionLog.create("small", directory=tmp_path) as log:
        log.append(UserTurn("a"))
        log.append(AssistantTurn("<think>hm</think>\n\nA", (1, 2, 3)))
        answer = log.conversation.messages[-1]
        assert (answer.content, answer.token_ids) == ("A", ())
        log.append(SettingsChange({"thinking": "keep"}))
        answer = log.conversation.messages[-1]
        assert (answer.content, answer.token_ids) == ("<think>hm</think>\n\nA", (1, 2, 3))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ", "plain "),
        ("<think>a</think> b", "b"),
        ("a</think>b", "b"),
        ("b <think>a", "b"),
        ("<think>a</think>b<think>c</think>d", "bd"),
        ("a</think>b<think>c</think>", "b"),
    ],
)
def test_without_thinking(text: str, shown: str) -> None:
    assert without_thinking(text) == shown


def test_only_one_may_write(tmp_path: Path) -> None:
    with led(tmp_path, "a") as log:
        with pytest.raises(SessionBusyError) as caught:
            SessionLog.open(log.path)
        assert log.conversation.id in caught.value.message
        assert read(log.path).conversation == log.conversation  # reading is allowed
        (info,) = list_sessions(tmp_path)
        with pytest.raises(SessionBusyError):
            remove_session(info)
    with SessionLog.open(log.path) as again:
        assert again.conversation == log.conversation


def test_another_process_is_kept_out(tmp_path: Path) -> None:
    log = led(tmp_path, "a")
    script = "import sys; from pathlib import Path; from homespec.sessions.log import SessionLog as Log"
    command = [sys.executable, "-c", f"{script}; Log.open(Path(sys.argv[1]))", str(log.path)]
    assert "SessionBusyError" in subprocess.run(command, capture_output=True, text=True).stderr
    log.close()
    assert subprocess.run(command, capture_output=True).returncode == 0


def test_a_damaged_line_is_left_out_and_told(tmp_path: Path) -> None:
    with led(tmp_path, "a", "b", "c"):
        pass
    (path,) = tmp_path.iterdir()
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b"B", b"\xff")  # the answer to b
    path.write_bytes(b"".join(lines))
    with SessionLog.open(path) as log:
        assert len(log.notices) == 1
        assert "Line 5" in log.notices[0]
        assert contents(log)[1:] == ["a", "A", "c", "C"]
        log.append(UserTurn("d"))
    assert path.read_bytes().startswith(b"".join(lines))


def test_a_lost_message_does_not_give_its_answer_to_another(tmp_path: Path) -> None:
    with led(tmp_path, "a", "b"):
        pass
    (path,) = tmp_path.iterdir()
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = b"\x00" * len(lines[3][:-1]) + b"\n"  # the message b
    reading = parse(b"".join(lines), path.name)
    assert [message.content for message in reading.conversation.messages][1:] == ["a", "A"]
    assert len(reading.notices) == 2


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"{}\n", b"[" * 100_000 + b"\n", b"\xff\n", json.dumps(to_json(Undo())).encode() + b"\n"],
)
def test_another_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(SessionFormatError):
        SessionLog.open(path)
    assert path.read_bytes() == content
    assert list_sessions(tmp_path) == []


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({**to_json(Start("x", 0.0, "m")), "format": 2}) + "\n")
    with pytest.raises(SessionFormatError, match="newer"):
        read(path)


def test_a_full_disk_leaves_the_conversation_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = led(tmp_path, "a")
    real_write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: _half_full(real_write, fd, data))
    told = log.append(UserTurn("b"))
    assert told is not None
    assert "No space left" in told
    assert str(tmp_path) in told
    assert log.append(AssistantTurn("B")) is None  # told once
    assert log.num_unsaved == 2
    assert contents(log)[1:] == ["a", "A", "b", "B"]
    # What did get to the disk is a beginning of it.
    assert [turn.user.text for turn in read(log.path).conversation.turns] in (["a"], ["a", "b"])
    monkeypatch.undo()
    assert log.append(UserTurn("c")) is None
    assert log.num_unsaved == 0
    assert read(log.path) == parse(log.path.read_bytes(), log.path.name)
    assert read(log.path).conversation == log.conversation
    assert read(log.path).notices == ()
    log.close()


def _half_full(write: object, descriptor: int, data: bytes) -> int:
    """Writes a little, then there is no more room."""
    if len(data) > 10:
        assert callable(write)
        return int(write(descriptor, data[: len(data) // 2]))
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_directory_that_cannot_be_made_leaves_it_in_memory_too(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with SessionLog.create("small", directory=tmp_path / "file" / "sessions") as log:
        assert log.append(UserTurn("a")) is not None
        assert log.append(AssistantTurn("A")) is None
        assert [message.content for message in log.conversation.messages] == ["a", "A"]


WRITER = """
import sys
from pathlib import Path
from homespec.sessions.events import AssistantTurn, UserTurn
from homespec.sessions.log import SessionLog
log = SessionLog.create("small", directory=Path(sys.argv[1]))
number = 0
while True:
    log.append(UserTurn(f"question {number} " + "x" * 5000))
    log.append(AssistantTurn(f"answer {number}", tuple(range(500))))
    number += 1
    print(number, flush=True)  # confirmed
"""


def test_what_was_confirmed_survives_kill_9(tmp_path: Path) -> None:
    for kill_after in (1, 2, 5, 17, 40):
        directory = tmp_path / str(kill_after)
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(directory)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        confirmed = [int(process.stdout.readline()) for _ in range(kill_after)][-1]
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split()
        process.wait()
        process.stdout.close()
        confirmed = int(rest[-1]) if rest else confirmed
        with SessionLog.open(find_session("latest", directory).path) as log:
            answered = [turn for turn in log.conversation.turns if turn.assistant is not None]
            assert confirmed <= len(answered) <= confirmed + 1
            assert all(
                turn.assistant is not None and turn.assistant.text == f"answer {number}"
                for number, turn in enumerate(answered)
            )
            log.append(UserTurn("and now?"))
            assert read(log.path).notices == ()
            assert read(log.path).conversation == log.conversation


def test_conversations_are_found_by_id_title_and_latest(tmp_path: Path) -> None:
    paths = []
    for number, text in enumerate(["first words " + "x" * 100, "second"]):
        with led(tmp_path, text) as log:
            paths.append(log.path)
            if number:
                log.append(TitleChange("My notes"))
        os.utime(log.path, (number, number))
    old, new = (path.stem for path in paths)
    assert [info.id for info in list_sessions(tmp_path)] == [new, old]
    assert find_session("latest", tmp_path).id == new
    assert find_session("My notes", tmp_path).path == paths[1]
    assert find_session(old, tmp_path).title == "first words " + "x" * 47 + "…"
    assert find_session(old[:-1] if new[:-1] != old[:-1] else old, tmp_path).id == old
    with pytest.raises(SessionNotFoundError, match="2 conversations"):
        find_session(old[:2], tmp_path)
    for name in ("", "nothing"):
        with pytest.raises(SessionNotFoundError):
            find_session(name, tmp_path)
    with pytest.raises(SessionNotFoundError, match="no conversation yet"):
        find_session("latest", tmp_path / "empty")


def test_export(tmp_path: Path) -> None:
    with led(tmp_path, "a", "b") as log:
        log.append(UserTurn("file content", typed="see @file"))
        log.append(AssistantTurn("par", finish_reason="interrupted"))
        log.append(ContextCut(1, "Sum."))
        log.append(UserTurn("lost"))
        text, data = to_markdown(log.conversation), export_json(log.conversation)
    expected = ["# a", "## System", "Be brief.", "## User", "a", "## Assistant", "A", "---", "Sum.", "b", "B"]
    expected += ["see @file", "par", "*(interrupted)*", "lost", "*(not answered)*"]
    position = 0
    for part in expected:
        position = text.index(part, position) + len(part)
    assert "file content" not in text
    assert json.loads(json.dumps(data))["messages"][1] == {"role": "user", "content": SUMMARY_QUESTION}
    assert [turn["user"]["text"] for turn in data["turns"]] == ["a", "b", "file content", "lost"]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOMESPEC_STATE", str(tmp_path))
    runner = CliRunner()
    assert runner.invoke(cli, ["sessions", "list"]).stderr == "No conversations yet.\n"
    with led(tmp_path / "sessions", "Hello \x1b[31m there") as log:
        log.append(UserTurn("bytes \udce9"))
    name = log.conversation.id
    listed = runner.invoke(cli, ["sessions", "list"]).stdout
    assert name in listed
    assert "\x1b" not in listed
    (facts,) = json.loads(runner.invoke(cli, ["sessions", "list", "--json"]).stdout)["sessions"]
    assert facts["id"] == name
    assert "HELLO" in runner.invoke(cli, ["sessions", "show", "latest"]).stdout
    shown = json.loads(runner.invoke(cli, ["sessions", "show", name, "--json"]).stdout)
    assert shown["system"] == "Be brief."
    kept = KvFiles().path(name)
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"kept")
    assert isinstance(runner.invoke(cli, ["sessions", "rm", name, "x"]).exception, SessionNotFoundError)
    assert log.path.exists()
    assert runner.invoke(cli, ["sessions", "rm", name]).exit_code == 0
    assert not log.path.exists()
    assert not kept.exists()
