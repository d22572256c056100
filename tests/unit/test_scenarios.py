"""The prompts that ship, those that users bring, and what the router takes them for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from homespec.benchmark.scenarios import (
    Scenario,
    read_prompts,
    read_scenario,
    refuse_repeats,
    shipped_directory,
    shipped_scenarios,
)
from homespec.drafting.router import Kind, classify
from homespec.errors import ConfigError

SHIPPED = shipped_scenarios()

# What a scenario's prompts are, and which share of them at least is taken for that before the reply begins.
# Functions of shell scripts, exported classes, HTML and YAML are not taken for code that is to be edited.
KINDS: dict[str, tuple[Kind, float]] = {
    "code": ("code", 0.75),
    "editing": ("editing", 0.6),
    "extraction": ("rewriting", 0.75),
    "json": ("structured", 0.75),
    "maths": ("maths", 0.75),
}
# What a text of a language cannot do without.
MARKS = {"de": "[äöüß]", "en": r"\b(?:a|of|the|to)\b", "ko": "[가-힣]"}

GOOD_TOML = 'name = "x"\ntitle = "X"\nlanguage = "en"\nprompts = ["Who?", """\nWhy?\n"""]\n'


def written(directory: Path, text: str, name: str = "own.jsonl") -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def test_what_ships() -> None:
    names = [scenario.name for scenario in SHIPPED]
    assert names == sorted(path.stem for path in shipped_directory().glob("*.toml"))
    assert {"chat", "code", "editing", "extraction", "json", "korean", "maths", "reasoning"} <= set(names)
    assert len({scenario.title for scenario in SHIPPED}) == len(SHIPPED)
    assert len({scenario.language for scenario in SHIPPED}) >= 3


@pytest.mark.parametrize("scenario", SHIPPED, ids=lambda scenario: scenario.name)
def test_shipped_scenarios_are_sound(scenario: Scenario) -> None:
    assert len(scenario.prompts) >= 8
    for prompt in scenario.prompts:
        assert re.search(MARKS[scenario.language], prompt), prompt


def test_no_prompt_ships_twice() -> None:
    prompts = [" ".join(prompt.lower().split()) for scenario in SHIPPED for prompt in scenario.prompts]
    assert len(set(prompts)) == len(prompts)


@pytest.mark.parametrize("name", KINDS)
def test_the_router_knows_them(name: str) -> None:
    prompts = next(scenario.prompts for scenario in SHIPPED if scenario.name == name)
    kind, floor = KINDS[name]
    wrong = [
        (found.kind, found.reason, prompt)
        for prompt in prompts
        if (found := classify(prompt, "")).kind != kind
    ]
    assert 1 - len(wrong) / len(prompts) >= floor, wrong


def test_a_prompt_that_stands_twice() -> None:
    one = Scenario("one", "One", "en", ("Who?", "Why?"))
    other = Scenario("other", "Other", "en", ("How?", "Why?"))
    refuse_repeats([one])
    with pytest.raises(ConfigError, match=r"^Prompts 2 of one and 2 of other are the same, .*\.$"):
        refuse_repeats([one, other])


def test_a_scenario_of_toml(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD_TOML, "x.toml")
    assert read_scenario(path) == Scenario("x", "X", "en", ("Who?", "Why?"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "x"', "name =", "is not valid TOML"),
        ('name = "x"', 'nome = "x"', "must have the keys name, title, language, prompts, but has nome"),
        ('name = "x"', 'name = "X Y"', "has the unusable name 'X Y'"),
        ('"en"', '"English"', "has the unusable language 'English'"),
        ('"X"', "3", "has the unusable title 3"),
        ('"Who?"', '" "', "must have a list of prompts"),
        ('"Who?", """\nWhy?\n"""', "", "must have a list of prompts"),
    ],
)
def test_malformed_scenarios(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD_TOML
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        read_scenario(written(tmp_path, GOOD_TOML.replace(old, new), "x.toml"))
    assert caught.value.hint == "Correct x.toml."


def test_prompts_of_a_user(tmp_path: Path) -> None:
    lines = '{"prompt": "Who\u2028are you? "}\n\n{"task_id": 7, "prompt": "Why?\\nTell me."}'
    scenario = read_prompts(written(tmp_path, lines, "suite.jsonl"))
    assert scenario == Scenario("suite", "suite.jsonl", "und", ("Who\u2028are you? ", "Why?\nTell me."))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no prompts."),
        ("\n \n", "has no prompts."),
        ('{"prompt": "Who?"}\n{"prompt": ', "is not JSON."),
        ('{"prompt": "Who?"}\n{"question": "Why?"}', "is not an object with the key prompt."),
        ('{"prompt": "Who?"}\n["Why?"]', "is not an object with the key prompt."),
        ('{"prompt": "Who?"}\n{"prompt": ["Why?"]}', "is not a text, or is empty."),
        ('{"prompt": "Who?"}\n{"prompt": " "}', "is not a text, or is empty."),
        ('{"prompt": "Who?"}\n{"prompt": "Who?"}', "Prompts 1 of own and 2 of own are the same"),
    ],
)
def test_unusable_prompts_of_a_user(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        read_prompts(written(tmp_path, text))
    assert caught.value.message.endswith(".")
    assert caught.value.hint
    if len(text) > 5 and "same" not in message:
        assert "ine 2 of" in caught.value.message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.jsonl cannot be read: No such file or directory\.$"):
        read_prompts(tmp_path / "gone.jsonl")
    latin = tmp_path / "latin.jsonl"
    latin.write_bytes('{"prompt": "Größe?"}'.encode("latin-1"))
    with pytest.raises(ConfigError, match="is not a text in UTF-8"):
        read_prompts(latin)
