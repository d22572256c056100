"""Parts of the chat that need no terminal and no model."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.catalog.entries import load_catalog
from homespec.chat.attachments import MAX_FILE_BYTES, expand
from homespec.chat.commands import COMMANDS, find_command, is_command
from homespec.chat.figures import prompt_text, short_count, stats_table, status_line
from homespec.chat.first_run import first_run_lines
from homespec.chat.parameters import NAMES, Parameters
from homespec.chat.reading import LineReader, edited, is_open, pipe_lines, unquoted
from homespec.chat.suggesting import suggest
from homespec.chat.thinking import ThinkSplitter, thinking_of
from homespec.chat.tinting import Origins
from homespec.errors import ConfigError
from homespec.records import GenerationStats, PlanSummary, ReasonCode, Reply, StepRecord
from homespec.sessions.thinking import without_thinking
from tests.support.screens import memory_terminal

PLAN = PlanSummary(True, "on", "N-grams draft.", 4096, 5)
STATS = GenerationStats(
    prompt_tokens=100, completion_tokens=86, ttft_seconds=0.4, tokens_per_second=23.14, num_steps=50,
    num_drafts=10, num_draft_tokens=52, num_accepted_tokens=31, acceptance_rate=31 / 52,
    mean_acceptance_length=4.1, speedup=1.212,
)  # fmt: skip
REPLY = Reply("Text", (1, 2), "stop", "smollm2", "ngram", "greedy", 1, STATS, PLAN)


class TestStatusLine:
    def test_says_everything(self) -> None:
        assert status_line(REPLY, 100) == (
            "ngram x5.2, 60% of 52 accepted | 23.1 tok/s, 1.21x plain | ctx 186/4096 | first token 0.40 s"
        )

    def test_leaves_out_what_matters_least(self) -> None:
        assert (
            status_line(REPLY, 80)
            == "ngram x5.2, 60% of 52 accepted | 23.1 tok/s, 1.21x plain | ctx 186/4096"
        )
        assert status_line(REPLY, 40) == "ngram x5.2, 60% of 52 accepted"

    @pytest.mark.parametrize("width", [1, 40, 80])
    @pytest.mark.parametrize("reason", ["no_gain", "off_by_user", "would_page", "drafter_failed"])
    def test_the_reason_without_drafts_always_stays(self, reason: ReasonCode, width: int) -> None:
        plan = dataclasses.replace(PLAN, speculation=False, reason=reason, explanation="Because.")
        reply = dataclasses.replace(REPLY, plan=plan, finish_reason="context")
        line = status_line(reply, width)
        assert line.startswith(f"context full | no drafts: {reason}")
        assert f"No drafts ({reason}): Because." in dict(stats_table(reply, 0.01)).values()

    def test_nothing_drafted_and_a_single_token(self) -> None:
        stats = GenerationStats(prompt_tokens=3, completion_tokens=1, num_steps=1)
        assert status_line(dataclasses.replace(REPLY, stats=stats), 60).startswith(
            "ngram: nothing to draft | ctx 4/"
        )

    def test_positions_that_never_were_right_are_shown(self) -> None:
        stats = dataclasses.replace(STATS, accepted_per_position=(4,), drafted_per_position=(8, 5))
        assert ("by position", "50% 0%") in stats_table(dataclasses.replace(REPLY, stats=stats), None)

    def test_the_prompt_fits(self) -> None:
        assert prompt_text(1930, 4096, 80) == "ctx 1930/4096 (47%) > "
        assert prompt_text(1930, 32768, 40) == "ctx 1930/32.8k > "
        assert prompt_text(1930, 4096, 20) == "> "
        assert short_count(131_072) == "131k"


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_names_and_values_of_a_table_stay_apart(columns: int) -> None:
    terminal, screen = memory_terminal(columns)
    names = ["n" * length for length in (3, 18, 27, 28, 29, 30, 34)]
    terminal.table((name, "value") for name in names)
    assert "nvalue" not in screen.text
    assert screen.text.count("value") == len(names)


class TestCommands:
    def test_lines_that_are_commands(self) -> None:
        assert all(is_command(command.name) for command in COMMANDS)
        assert is_command("/set temperature 1")
        for line in ("/usr/bin is full", " /help", "//", "/* c */", "", "hello /help", "/ x"):
            assert not is_command(line), line

    def test_beginnings_and_aliases(self) -> None:
        assert find_command("/exi")[0].name == "/exit"
        assert find_command("/quit")[0].name == "/exit"
        assert find_command("/temp 0.5") == (find_command("/set")[0], "temperature 0.5")
        assert find_command("/SYSTEM  Be Brief. ")[1] == "Be Brief."

    @pytest.mark.parametrize(
        ("typed", "meant"), [("/hlep", "/help"), ("/contxt", "/context"), ("/ex", "/export or /exit")]
    )
    def test_typing_errors_get_a_suggestion(self, typed: str, meant: str) -> None:
        with pytest.raises(ConfigError, match="no command") as caught:
            find_command(typed)
        assert meant in caught.value.hint

    def test_help_is_one_line_each(self) -> None:
        assert all(command.help.endswith(".") and len(command.help) < 60 for command in COMMANDS)


class TestAttachments:
    def test_files_stand_below_the_prompt(self, tmp_path: Path) -> None:
        path = tmp_path / "a b.py"
        path.write_text("x = '```'\n")
        expanded = expand(f'Explain @"{path}", please.')
        assert expanded.text == f"Explain {path}, please.\n\nFile {path}:\n````py\nx = '```'\n````"
        assert len(expanded.notes) == 1

    def test_punctuation_and_doubles(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("n.md").write_text("notes")
        assert expand("See @n.md. And @n.md!").text == "See n.md. And n.md!\n\nFile n.md:\n```md\nnotes\n```"

    @pytest.mark.parametrize("text", ["@alice said", "a@b.de", "mail me@x.org", "no @ here", "\\@n.md"])
    def test_what_is_no_path_stays(self, text: str) -> None:
        assert expand(text).text == text.replace("\\@", "@")

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (b"a\0b", "binary"),
            (b"\xff\xfea", "not UTF-8"),
            (b"a" * (MAX_FILE_BYTES + 1), "at most"),
            (None, "no file"),
        ],
    )
    def test_what_cannot_be_read_is_refused(
        self, content: bytes | None, problem: str, tmp_path: Path
    ) -> None:
        path = tmp_path / "file.bin"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ConfigError, match=problem) as caught:
            expand(f"Look at @{path}")
        assert caught.value.hint

    def test_directories_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="directory"):
            expand(f"@{tmp_path}")


class TestParameters:
    def test_change_and_show(self) -> None:
        parameters = Parameters().changed("temp", "0.7").changed("top-k", "off").changed("max_tokens", "50")
        shown = dict(parameters.changed("stop", "a\\n | b").table())
        assert (shown["temperature"], shown["top_k"], shown["max_tokens"], shown["stop"]) == (
            "0.7",
            "0",
            "50",
            "a\\n | b",
        )
        assert set(shown) == set(NAMES)
        assert parameters.settings() == {"temperature": 0.7, "top_k": 0, "max_tokens": 50}
        assert parameters.changed("seed", "7").seed == 7
        assert parameters.changed("seed", "7").changed("seed", "off").seed is None

    @pytest.mark.parametrize(
        ("name", "value"),
        [("temperature", "-1"), ("top_p", "2"), ("top_k", "a"), ("max_tokens", "0"), ("seed", "-1"),
         ("x", "1"), ("verifier", "fast"), ("max_tokens", "many")],
    )  # fmt: skip
    def test_what_cannot_be_is_refused(self, name: str, value: str) -> None:
        with pytest.raises(ConfigError):
            Parameters().changed(name, value)


class TestThinking:
    @given(
        st.lists(st.sampled_from(["<think>", "</think>", "<", "a", "b\n", "think>", "\n"]), max_size=12),
        st.data(),
    )
    def test_pieces_do_not_matter(self, parts: list[str], data: st.DataObject) -> None:
        text = "".join(parts)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        assert self._split(pieces) == self._split([text])

    @staticmethod
    def _split(pieces: list[str]) -> list[tuple[bool, str]]:
        splitter = ThinkSplitter()
        found = [part for piece in pieces for part in splitter.feed(piece)]
        joined: list[tuple[bool, str]] = []
        for thinking, text in [*found, *splitter.finish()]:
            if joined and joined[-1][0] == thinking:
                joined[-1] = (thinking, joined[-1][1] + text)
            else:
                joined.append((thinking, text))
        return joined

    def test_agrees_with_what_the_model_is_shown(self) -> None:
        text = "<think>\nI see.\n</think>\n\nAnswer"
        assert self._split([text]) == [(True, "I see.\n"), (False, "Answer")]
        assert without_thinking(text) == "Answer"
        assert thinking_of(text) == "I see."
        assert thinking_of("opened in the prompt</think>Answer") == "opened in the prompt"
        assert thinking_of("Answer") == ""


def test_origins_follow_tokens_through_characters_and_held_text() -> None:
    pieces = [b"Hi ", "é".encode()[:1], "é".encode()[1:], b" x", b"\xff", b"!"]
    origins = Origins(pieces.__getitem__)
    origins.observe([StepRecord((0, 1, 2), 2, 2, "ngram", 3, 0, 0, 0)])
    assert list(origins.split("Hi")) == [("Hi", "ngram")]
    origins.observe([StepRecord((3, 4, 5), 3, 1, "draft-model", 4, 0, 0, 0)])
    assert list(origins.split(" é x\ufffd!")) == [
        (" ", "ngram"), ("é", ""), (" x", "draft-model"), ("\ufffd", ""), ("!", ""),
    ]  # fmt: skip


class TestReading:
    def test_quoted_lines_from_a_pipe(self) -> None:
        reader = LineReader(
            pipe_lines(io.StringIO('one\n"""\ntwo\n\nlines\n"""\n"""three"""\n"""open\nend')), offers=False
        )
        lines = [unquoted(reader.read("> ")) for _ in range(4)]
        assert lines == ["one", "two\n\nlines", "three", "open\nend"]
        with pytest.raises(EOFError):
            reader.read("> ")

    def test_an_empty_line_takes_what_is_offered_to_people_only(self) -> None:
        for offers, expected in ((True, "the default"), (False, "")):
            reader = LineReader(pipe_lines(io.StringIO("\n")), offers=offers)
            assert reader.read("> ", "the default") == expected

    def test_open_quotes(self) -> None:
        assert is_open('"""a')
        assert not is_open('"""a"""')
        assert not is_open('say """')

    def test_the_editor(self, tmp_path: Path) -> None:
        script = tmp_path / "editor"
        script.write_text('#!/bin/sh\nprintf " more" >> "$1"\n')
        script.chmod(0o755)
        assert edited("Some", {"EDITOR": str(script)}) == "Some more"
        with pytest.raises(ConfigError, match="cannot be started"):
            edited("", {"VISUAL": str(tmp_path / "none")})
        with pytest.raises(ConfigError, match="exit code 1"):
            edited("", {"EDITOR": "false"})


def test_suggestions() -> None:
    assert suggest("look at @src/") is None
    assert suggest("/export ") is None
    assert suggest("hello ") == []
    assert ("/help", "Show this.") in (suggest("/h") or [])
    assert [name for name, _ in suggest("/spec o") or []] == ["on", "off", "auto", "show"]
    assert ("temperature", "") in (suggest("/set t") or [])
    assert suggest("/spec on ") == []


def test_first_run_is_three_lines_with_what_fits() -> None:
    entries = load_catalog().values()
    small = first_run_lines("smollm2-135m-instruct", entries, 1_000_000_000)
    large = first_run_lines("smollm2-135m-instruct", entries, 16_000_000_000)
    assert len(small) == len(large) == 3
    assert "smollm2-135m-instruct (98.4 MB)" in small[1]
    assert "1.5b" not in small[1]
    assert "qwen2.5-coder-1.5b-instruct (1.12 GB)" in large[1]
    assert large[2].endswith("homespec models pull smollm2-135m-instruct")
    assert "none" in first_run_lines("smollm2-135m-instruct", entries, 0)[1]
