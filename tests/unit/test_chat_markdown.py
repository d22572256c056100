"""Markdown lines, and the region that they are drawn in."""

from __future__ import annotations

import random
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from homespec.chat.inline import inline
from homespec.chat.lines import MarkdownLines, Row
from homespec.chat.region import Region
from homespec.chat.writers import MarkdownWriter, Pacer, last_rows
from tests.support.screens import Screen, memory_terminal

TEXT = """\
# A title

Some *text* that is **long enough** to be wrapped at eighty columns, with `code`, and a word more.

1. one
2. two
   - nested [link](http://a.b/c)

```python
def f(x):
\treturn "a **string**"
```

| Animal | Legs |
|--------|-----:|
| Fox | 4 |
| 새 (bird) 🐦 | 2 |

> quoted <b>text</b>

The end."""

SHOWN = """\
A title

Some text that is long enough to be wrapped at eighty columns, with code, and a
word more.

1. one
2. two
   • nested link (http://a.b/c)

```python
def f(x):
    return "a **string**"
```

Animal         Legs
───────────────────
Fox               4
새 (bird) 🐦      2

> quoted <b>text</b>

The end."""


def shown(text: str, columns: int = 80, rows: int = 24, *, size: int = 5) -> str:
    """What a terminal shows of a text that is streamed in pieces, drawn after each of them."""
    terminal, screen = memory_terminal(columns, rows)
    writer = MarkdownWriter(
        terminal, show_thinking=True, code_theme="ansi_dark", clock=iter(range(10**9)).__next__
    )
    for start in range(0, len(text), size):
        writer.write(text[start : start + size])
    writer.finish()
    return screen.text


def without_gaps(text: str) -> str:
    return "".join(text.split())


class TestInline:
    @pytest.mark.parametrize(
        ("source", "plain"),
        [
            ("**bold** *it* ~~no~~ `co_de`", "bold it no co_de"),
            ("a_b_c <b>x</b> & 2 * 3 * 4", "a_b_c <b>x</b> & 2 * 3 * 4"),
            ("[t](http://a.b)", "t (http://a.b)"),
            ("<http://a.b>", "http://a.b"),
            ("![img](u.png)", "img (u.png)"),
            ("[brackets] and [/tags]", "[brackets] and [/tags]"),
        ],
    )
    def test_plain_text(self, source: str, plain: str) -> None:
        assert inline(source).plain == plain

    @pytest.mark.parametrize("source", ["some **bold", "some `co", "some *it", "some ~~no"])
    def test_open_emphasis_is_shown_as_if_it_ended(self, source: str) -> None:
        text = inline(source, growing=True)
        assert text.plain == source.translate({ord(c): "" for c in "*`~"})
        assert any(span.style for span in text.spans)

    @given(st.text(alphabet="ab *_`~[]()<>\\!#", max_size=40))
    def test_letters_are_never_lost(self, source: str) -> None:
        for growing in (False, True):
            plain = inline(source, growing=growing).plain
            assert [c for c in plain if c in "ab"] == [c for c in source if c in "ab"]


class TestStreaming:
    @pytest.mark.parametrize("size", [1, 3, 7, 1000])
    def test_pieces_of_any_size_end_in_the_same_screen(self, size: int) -> None:
        assert without_gaps(shown(TEXT, size=size)) == without_gaps(SHOWN)
        assert shown(TEXT, size=size) == shown(TEXT, size=1000)

    def test_layout(self) -> None:
        for line in SHOWN.split("\n"):
            if "새" not in line:
                assert line in shown(TEXT).split("\n")

    @pytest.mark.parametrize("columns", [8, 20, 33, 40, 120])
    @pytest.mark.parametrize("rows", [3, 10, 24])
    def test_every_screen_shows_all_of_it_once(self, columns: int, rows: int) -> None:
        text = "The fox **jumps** over 한국어 words, again and again. " * 30 + "\n\n- item `code` one\n- two"
        expected = without_gaps(text.replace("**", "").replace("`", "").replace("- ", ""))
        assert without_gaps(shown(text, columns, rows).replace("•", "")) == expected

    def test_long_code_lines_are_left_to_the_terminal(self) -> None:
        code = "x = " + "a" * 200
        assert (
            shown(f"```\n{code}\n```", 40)
            == "```\n" + "\n".join(code[i : i + 40] for i in range(0, 204, 40)) + "\n```"
        )

    def test_code_in_a_list_loses_its_indentation(self) -> None:
        assert (
            shown("1. Do:\n   ```sh\n   a\n     b\n   ```\n2. Done") == "1. Do:\n```sh\na\n  b\n```\n2. Done"
        )

    def test_tables_without_room_or_shape_are_shown_as_written(self) -> None:
        assert shown("| a | b |\nText") == "| a | b |\nText"
        assert shown("| a | b |\n|---|---|\n| c | d |", 10).split("\n")[0] == "| a | b |"

    def test_control_characters_do_not_reach_the_terminal(self) -> None:
        assert shown("a\x1b[2Jb\x07c\x9b31md") == "a[2Jbc31md"

    @given(st.text(alphabet="ab* \n`|-#>1.", max_size=120), st.integers(1, 9))
    def test_no_letter_is_lost_whatever_the_text(self, text: str, size: int) -> None:
        drawn = shown(text, 20, 6, size=size)
        assert [c for c in drawn if c in "ab"] == [c for c in text if c in "ab"]


class TestDisturbances:
    def test_resizes_and_typing_lose_and_double_nothing(self) -> None:
        for seed in range(20):
            chance = random.Random(seed)
            words = " ".join(f"word{number}" for number in range(120))
            terminal, screen = memory_terminal(60, 24)
            typed = [0]
            writer = MarkdownWriter(
                terminal, show_thinking=True, code_theme="ansi_dark",
                typed_ahead=partial(sum, typed),
                clock=iter(range(10**9)).__next__,
            )  # fmt: skip
            for start in range(0, len(words), 6):
                writer.write(words[start : start + 6])
                if chance.random() < 0.1:
                    # Wider only: the screen of these tests cuts lines off where a real one moves them.
                    terminal.answers.width += 1
                    screen.resize(terminal.answers.width, 24)
                if chance.random() < 0.1:
                    typed[0] += 1
                    screen.write("\n")
            writer.finish()
            assert without_gaps(screen.text) == without_gaps(words), seed

    def test_a_clipped_line_is_shown_whole_after_a_resize(self) -> None:
        terminal, screen = memory_terminal(20, 5)
        writer = MarkdownWriter(
            terminal, show_thinking=True, code_theme="ansi_dark", clock=iter(range(999)).__next__
        )
        words = " ".join(f"w{number}" for number in range(60))
        writer.write(words)
        terminal.answers.width = 21
        screen.resize(21, 5)
        writer.write(" end")
        writer.finish()
        assert without_gaps(screen.text).endswith(without_gaps(words + "end"))


class TestThinking:
    def test_shown_dimmed_and_folded(self) -> None:
        for show, expected in (
            (True, "let me\nsee\n\nAnswer"),
            (False, "(thought for 3 words; /think show)\n\nAnswer"),
        ):
            terminal, screen = memory_terminal()
            writer = MarkdownWriter(terminal, show_thinking=show, code_theme="ansi_dark")
            for piece in ("let ", "me\n", "see\n"):
                writer.write(piece, thinking=True)
            writer.write("Answer")
            writer.finish()
            assert screen.text == expected

    def test_progress_is_gone_with_the_first_text(self) -> None:
        terminal, screen = memory_terminal()
        writer = MarkdownWriter(terminal, show_thinking=True, code_theme="ansi_dark")
        writer.progress("reading")
        assert screen.text == "reading"
        writer.write("Hi")
        writer.finish()
        assert screen.text == "Hi"


class TestRegion:
    def test_only_the_changed_end_is_sent(self) -> None:
        sent: list[str] = []
        region = Region(sent.append)
        region.show([Row("a" * 70, 70), Row("word", 4)], 80)
        region.show([Row("a" * 70, 70), Row("word more", 9)], 80)
        assert sent[1:] == [" more"]
        region.show([Row("a" * 70, 70), Row("word more", 9)], 80)
        assert len(sent) == 2

    @given(
        st.lists(st.lists(st.text("abc", max_size=30), max_size=4), max_size=8),
        st.lists(st.text("xyz", max_size=12), max_size=3),
    )
    def test_the_screen_is_always_what_was_shown_last(self, shows: list[list[str]], final: list[str]) -> None:
        screen = Screen(12, 60)
        region = Region(screen.write)
        for rows in shows:
            region.show([Row(row, len(row)) for row in rows], 12)
            wrapped = [row[i : i + 12] for row in rows for i in range(0, max(1, len(row)), 12)]
            assert screen.text == "\n".join(wrapped).rstrip("\n")
        region.commit([Row(row, len(row)) for row in final])
        assert screen.text == "\n".join(final).rstrip("\n")

    def test_last_rows(self) -> None:
        rows = [Row("a", 1), Row("b" * 25, 25), Row("c", 1)]
        assert last_rows(rows, 10, 9) == rows
        assert last_rows(rows, 10, 4) == rows[1:]
        assert last_rows(rows, 10, 3) == rows[2:]
        assert last_rows(rows[1:2], 10, 2) == [Row("...", 3)]
        assert last_rows([], 10, 2) == []


def test_drawing_keeps_to_its_share_of_the_time() -> None:
    now = [0.0]
    pacer = Pacer(lambda: now[0])

    def slow_draw() -> None:
        now[0] += 0.2

    while now[0] < 1000:
        pacer.run(slow_draw)
        now[0] += 0.01
    assert 0.015 < pacer.spent_seconds / now[0] < 0.021


def test_a_fence_that_never_ends_stays_code() -> None:
    lines = MarkdownLines()
    console = Console(width=40)
    lines.finish("~~~~ python title")
    for line in ("~~~", "| a | b |", "# no heading"):
        (block,) = lines.finish(line)
        assert [row.cells for row in block.rows(console, 40)] == [len(line)]
    assert lines.end() == []
