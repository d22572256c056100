"""`homespec chat` on a pseudo-terminal, and in pipes."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from homespec.sessions.log import read
from homespec.sessions.store import find_session, list_sessions
from tests.integration.conftest import SMOLLM2, require
from tests.support.screens import Process

pytestmark = pytest.mark.model

# A fixed length: what the controller chooses depends on the machine. Greedy, so that texts are known.
FLAGS = ["--draft-length", "5", "--temperature", "0", "--no-history"]
POEM = "Write a very long poem about the sea."


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Conversations and history of each test are its own."""
    require(SMOLLM2)
    monkeypatch.setenv("HOMESPEC_STATE", str(tmp_path / "state"))
    return tmp_path


def piped(lines: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "homespec", "chat", *FLAGS, *arguments],
        input=lines, env={**os.environ, **environment},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def is_sane(process: Process) -> bool:
    """Whether the terminal echoes, reads lines, and knows Ctrl-C."""
    wanted = termios.ECHO | termios.ICANON | termios.ISIG
    return process.local_flags & wanted == wanted and process.raw.count(b"\x1b[?25l") <= process.raw.count(
        b"\x1b[?25h"
    )


def test_every_command(home: Path) -> None:
    note = home / "note.txt"
    note.write_text("The password is fox.")
    chat = Process(*FLAGS, "-n", "24", "-c", "1024")
    chat.wait_for_prompt()
    assert "Hello" in chat.ask("Say Hello.")
    figures = (
        r"(ngram: nothing to draft|ngram x[\d.]+, \d+% of \d+ accepted) \| [\d.]+ tok/s.* \| ctx \d+/1024"
    )
    assert re.search(figures, chat.screen.text)
    for command, shown in {
        "/help": "/export FILE",
        "/hepl": "Did you mean /help?",
        "/model": "answers now",
        "/model nope": "There is no model 'nope'",
        "/draft": "ngram drafts",
        "/draft off": "off_by_user",
        "/draft ngram": "ngram drafts",
        "/spec": "Drafting: auto",
        "/spec nope": "/spec on, off, auto or show.",
        "/set": "temperature",
        "/set top_k 5": "top_k: 5",
        "/set top_k -5": "Error: ",
        "/system Be brief.": "System message set",
        "/system": "Be brief.",
        "/stats": "(0 reused)",
        "/context": "kept free",
        "/plan": "N-grams draft",
        "/think hide": "Thinking is folded.",
        "/save walk": "Saved as 'walk'",
        "/load": "walk",
        "/load walk": "That is this conversation.",
        f"/export {home}/talk.md": "Wrote 1 turn",
        f"/export {home}/talk.json": "Wrote 1 turn",
        "/export talk.txt": "Error: Where to?",
        f"What is in @{note}?": "note.txt: 20 B of text",
        "/spec off": "No drafts (off_by_user)",
        "/regen": "no drafts: off_by_user",
        "/spec on": "drafts in every step",
        "/spec show": "Accepted from: ngram",
        "And again": "ngram",
    }.items():
        assert shown in " ".join(chat.ask(command).split()), chat.screen.text
    assert "Hello" in (home / "talk.md").read_text()
    assert json.loads((home / "talk.json").read_text())
    chat.undo()
    assert "Forgot 2 turns" in chat.ask("/clear")
    assert "no reply" not in chat.screen.text
    chat.say("/exit")
    assert chat.wait_for_end() == 0
    assert is_sane(chat)


def test_status_agrees_with_run(home: Path) -> None:
    prompt = "Repeat three times: the quick brown fox jumps over the lazy dog."
    chat = Process(*FLAGS, "-n", "60")
    chat.wait_for_prompt()
    shown = chat.ask(prompt)
    chat.send("\x04")
    assert chat.wait_for_end() == 0
    run = [sys.executable, "-m", "homespec", "run", "--draft-length", "5", "--temperature", "0", "-n", "60"]
    reply = json.loads(subprocess.run([*run, "--json", prompt], capture_output=True, check=True).stdout)
    stats = reply["stats"]
    length = stats["num_draft_tokens"] / stats["num_drafts"]
    used = stats["prompt_tokens"] + stats["completion_tokens"]
    assert (
        f"ngram x{length:.1f}, {stats['acceptance_rate']:.0%} of {stats['num_draft_tokens']} accepted"
        in shown
    )
    assert f"ctx {used}/4096" in shown
    assert read(find_session("latest").path).conversation.turns[0].assistant.text == reply["text"]  # type: ignore[union-attr]


def test_interrupts_at_random_moments() -> None:
    chance = random.Random(5)
    chat = Process(*FLAGS, "--system", "word " * 1500)
    chat.wait_for_prompt()
    for number in range(8):
        chat.say(f"{POEM} Number {number}.")
        chat.pump(chance.uniform(0, 3))
        chat.send("\x03")
        chat.wait_for_prompt()
        if number % 3 == 2:
            chat.undo()
    assert "stopped | " in chat.screen.text or "Stopped before the reply began" in chat.screen.text
    chat.say(POEM)
    chat.pump(0.5)
    chat.send("\x03")
    chat.wait_for_prompt()
    chat.send("\x03")
    assert chat.wait_for_end() == 130
    assert is_sane(chat)
    conversation = read(find_session("latest").path).conversation
    replies = [turn.assistant for turn in conversation.turns if turn.assistant]
    assert all(reply.finish_reason in ("interrupted", "stop", "context") for reply in replies)


def test_two_interrupts_at_once_leave_with_the_partial_reply() -> None:
    chat = Process(*FLAGS)
    chat.wait_for_prompt()
    chat.say(POEM)
    chat.wait(lambda screen: len(screen.lines) > 4)
    # Signals that come at once are one; fingers are slower.
    chat.send("\x03")
    chat.pump(0.1)
    chat.send("\x03")
    assert chat.wait_for_end() == 130
    assert is_sane(chat)
    reply = read(find_session("latest").path).conversation.turns[0].assistant
    assert reply is not None
    assert reply.text
    assert reply.finish_reason == "interrupted"


def test_a_kill_loses_only_the_reply_in_progress() -> None:
    for number in range(2):
        chat = Process(*FLAGS, "-n", "30", *(["--continue"] if number else []))
        chat.wait_for_prompt()
        if number:
            assert "Going on with" in chat.screen.text
            assert "/regen asks for it" in chat.screen.text
            chat.undo()
        chat.ask(f"Say hello number {number}.")
        chat.say("/set max_tokens off")
        chat.wait_for_prompt()
        chat.say(POEM)
        chat.pump(1.0)
        os.kill(chat.child.pid, signal.SIGKILL)
        assert chat.wait_for_end() == -signal.SIGKILL
        assert is_sane(chat)
        turns = read(find_session("latest").path).conversation.turns
        assert [turn.assistant is not None for turn in turns] == [True] * (number + 1) + [False]
    assert len(list_sessions()) == 1


def test_sigterm_at_the_prompt_leaves_the_terminal_in_order() -> None:
    chat = Process(*FLAGS)
    chat.wait_for_prompt()
    os.kill(chat.child.pid, signal.SIGTERM)
    assert chat.wait_for_end() == 128 + signal.SIGTERM
    assert is_sane(chat)


def test_resize_and_typing_while_streaming() -> None:
    chat = Process(*FLAGS, "-n", "150", columns=60)
    chat.wait_for_prompt()
    chat.say(POEM)
    for columns in (72, 90, 61):
        chat.pump(0.7)
        chat.resize(columns)
    chat.send("/context\r")
    chat.wait_for("kept free")
    chat.wait_for_prompt()
    chat.send("\x04")
    assert chat.wait_for_end() == 0


def test_a_paste_of_500_lines_is_one_message() -> None:
    chat = Process(*FLAGS, "-n", "8", "-c", "8192")
    chat.wait_for_prompt()
    lines = [f"line {number}" for number in range(500)]
    chat.send("\x1b[200~" + "\r".join(lines) + "\x1b[201~")
    chat.pump(1)
    chat.send("\r")
    chat.wait_for_prompt()
    assert read(find_session("latest").path).conversation.turns[0].user.text.split("\n") == lines


@pytest.mark.parametrize(
    "environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": "linux", "COLORFGBG": "0;15"}], ids=str
)
@pytest.mark.parametrize("columns", [20, 40])
def test_narrow_and_without_colour(columns: int, environment: dict[str, str]) -> None:
    chat = Process(*FLAGS, "-n", "40", columns=columns, environment=environment)
    chat.wait(lambda screen: screen.cursor_line.endswith(">"))
    chat.say("Show Python code in a fence.")
    chat.wait(lambda screen: "limit" in screen.text and screen.cursor_line.endswith(">"))
    if "NO_COLOR" in environment:
        assert not re.search(rb"\x1b\[[0-9;]*(3[0-7]|9[0-7]|38;|48;)[0-9;]*m", chat.raw)
    if environment.get("TERM") == "dumb":
        assert b"\x1b" not in chat.raw
    chat.send("\x04")
    assert chat.wait_for_end() == 0


def test_plain_lines_for_screen_readers() -> None:
    chat = Process(*FLAGS, "--plain", "-n", "12")
    chat.wait_for_prompt()
    chat.say("Say Hello.")
    chat.wait_for("ctx")
    chat.say('"""')
    chat.say("two lines")
    chat.say('of text"""')
    chat.wait_for_prompt()
    assert not re.search(rb"\x1b\[[0-9;]*[mJKA]", chat.raw)
    chat.send("\x04")
    assert chat.wait_for_end() == 0
    assert read(find_session("latest").path).conversation.turns[1].user.text == "two lines\nof text"


def test_the_context_fills_up_and_the_user_chooses() -> None:
    chat = Process(*FLAGS, "-c", "256", "-n", "40")
    chat.wait_for_prompt()
    seen: set[str] = set()
    answers = iter("dsns")
    for number in range(14):
        chat.say(f"Tell me a fact about the number {number}.")
        chat.wait(
            lambda screen: screen.cursor_line.endswith((" >", "either?")) or "> Tell" in screen.cursor_line
        )
        if chat.screen.cursor_line.endswith("either?"):
            answer = next(answers, None)
            if answer is None:
                break
            seen.add(answer)
            chat.say(answer)
            chat.wait(lambda screen: screen.cursor_line.endswith(" >") or "> Tell" in screen.cursor_line)
            if answer == "n":
                assert "Nothing was sent" in chat.screen.text
                chat.send("\x03")
    assert seen == set("dsn")
    assert "The context fills up" in chat.screen.text
    conversation = read(find_session("latest").path).conversation
    assert conversation.num_cut_turns


class TestPipes:
    def test_only_replies_go_to_stdout(self) -> None:
        result = piped('Say Hello.\n/stats\n"""\nTwo\nlines\n"""\n', "-n", "12")
        assert result.returncode == 0
        assert "Hello" in result.stdout
        assert "ctx" not in result.stdout
        assert "\x1b" not in result.stdout + result.stderr
        assert "prompt tokens" in result.stderr
        turns = read(find_session("latest").path).conversation.turns
        assert [turn.user.text for turn in turns] == ["Say Hello.", "Two\nlines"]
        assert result.stdout == "".join(
            turn.assistant.text.rstrip("\n") + "\n" for turn in turns if turn.assistant
        )

    def test_a_line_that_fails_shows_in_the_exit_code(self) -> None:
        result = piped("/nope\nSay Hello.\n", "-n", "4")
        assert result.returncode == 1
        assert "There is no command /nope" in result.stderr
        assert result.stdout

    @pytest.mark.parametrize("when_full", ["drop", "summarize", "stop"])
    def test_a_full_context_is_told_and_handled(self, when_full: str) -> None:
        lines = "".join(f"Tell me a fact about the number {number}.\n" for number in range(8))
        result = piped(lines, "-c", "256", "-n", "40", "--when-full", when_full)
        assert "The context is full: it holds 256 tokens" in result.stderr
        turns = read(find_session("latest").path).conversation.turns
        if when_full == "stop":
            assert result.returncode == 1
            assert "Nothing was sent" in result.stderr
        else:
            assert result.returncode == 0
            assert len(turns) == 8
            replies = [turn.assistant.text.rstrip("\n") for turn in turns if turn.assistant]
            assert result.stdout.rstrip("\n") == "\n".join(replies).rstrip("\n")
            assert len(replies) == 8

    def test_a_message_that_never_fits(self) -> None:
        result = piped("word " * 400 + "\nSay Hello.\n", "-c", "256", "-n", "8")
        assert result.returncode == 1
        assert "the context holds 256" in result.stderr
        assert "Hello" in result.stdout

    def test_without_any_model(self, home: Path) -> None:
        result = piped("Hi\n", HOMESPEC_MODELS=str(home / "none"))
        assert result.returncode == 1
        assert len(result.stderr.splitlines()) == 3
        assert "homespec models pull smollm2-135m-instruct" in result.stderr

    def test_nothing_to_continue(self) -> None:
        result = piped("Hi\n", "--continue")
        assert result.returncode == 2
        assert "no conversation" in result.stderr


def test_a_kept_cache_spares_the_prefill() -> None:
    piped("word " * 600 + "\n", "-n", "8", "--keep-cache")
    result = piped("Go on.\n/stats\n", "-n", "8", "--keep-cache", "--continue")
    reused = re.search(r"prompt tokens +([\d,]+) \(([\d,]+) reused\)", result.stderr)
    assert reused is not None, result.stderr
    assert int(reused[2].replace(",", "")) > 600


def test_display_is_cheap() -> None:
    chat = Process(*FLAGS, "-n", "200")
    chat.wait_for_prompt()
    chat.ask(POEM)
    shown = chat.ask("/stats")
    share = re.search(r"display +([\d.]+)% of the time", shown)
    # By construction at most a fiftieth, and what the last drawing takes.
    assert share is not None
    assert float(share[1]) < 3
    chat.send("\x04")
    chat.wait_for_end()
