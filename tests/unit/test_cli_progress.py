"""Progress on narrow terminals."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from homespec.cli.progress import shown_share, told_once
from tests.support.screens import memory_terminal

Shown = Callable[[str], AbstractContextManager[Callable[[float], None]]]


@pytest.fixture(params=[12, 40, 80])
def columns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setenv("COLUMNS", str(request.param))
    monkeypatch.setenv("TERM", "xterm-256color")
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize("shown", [told_once, shown_share])
@pytest.mark.parametrize("what", ["Measuring", "Measuring how fast this machine is with this model, once"])
def test_progress_takes_no_more_rows_than_it_gives_back(
    what: str, shown: Shown, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal, screen = memory_terminal(columns)
    monkeypatch.setattr(sys, "stderr", terminal.answers.file)
    with shown(what) as tell:
        for number in range(11):
            tell(number / 10)
        assert screen.text.count("Meas") <= 1
    assert not screen.text.strip()
