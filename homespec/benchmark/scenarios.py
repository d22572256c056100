"""The prompts: scenarios that ship with homespec, and files of the user's own.

A scenario is prompts of one kind of work. Those that ship were written for homespec and lie in
`bench/scenarios/`, one TOML file each with the keys name, title, language and prompts.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from homespec.errors import ConfigError

UNDETERMINED = "und"
"""How BCP 47 calls a language that nobody named, as that of a user's own prompts."""

_KEYS = ("name", "title", "language", "prompts")
_FORMS = {
    "name": re.compile(r"[a-z0-9][a-z0-9_-]*"),
    "title": re.compile(r"\S.*"),
    "language": re.compile(r"[a-z]{2,3}(?:-[A-Z][a-z]{3})?(?:-[A-Z]{2})?"),
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """Prompts of one kind.

    Attributes:
        name: what the user types, and what records call it.
        title: for people.
        language: of the prompts, as a BCP 47 tag.
        prompts: messages of a user, without a chat template.
    """

    name: str
    title: str
    language: str
    prompts: tuple[str, ...]


def shipped_scenarios() -> list[Scenario]:
    """The scenarios that ship with homespec, by name.

    Raises:
        ConfigError: a file is malformed, or a prompt stands there twice.
    """
    scenarios = [read_scenario(path) for path in sorted(shipped_directory().glob("*.toml"))]
    refuse_repeats(scenarios)
    return scenarios


def shipped_directory() -> Path:
    """Where they lie: in the package once installed, in the repository's `bench` in a source tree."""
    package = Path(__file__).parent.parent
    installed = package / "scenarios"
    return installed if installed.is_dir() else package.parent / "bench" / "scenarios"


def read_scenario(path: Path) -> Scenario:
    """The scenario of a TOML file.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or is not of the form described above.
    """
    hint = f"Correct {path.name}."
    try:
        document = tomllib.loads(_read(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.", hint=hint) from error
    if sorted(document) != sorted(_KEYS):
        raise ConfigError(
            f"{path} must have the keys {', '.join(_KEYS)}, but has {', '.join(document) or 'none'}.",
            hint=hint,
        )
    for key, form in _FORMS.items():
        if not _is_text(document[key]) or not form.fullmatch(document[key]):
            raise ConfigError(f"{path} has the unusable {key} {document[key]!r}.", hint=hint)
    prompts = document["prompts"]
    if not isinstance(prompts, list) or not prompts or not all(map(_is_text, prompts)):
        raise ConfigError(f"{path} must have a list of prompts, each a text and not empty.", hint=hint)
    return Scenario(
        name=document["name"],
        title=document["title"],
        language=document["language"],
        # TOML's texts of several lines end with a line break.
        prompts=tuple(prompt.strip() for prompt in prompts),
    )


def read_prompts(path: Path) -> Scenario:
    """The prompts of a JSON Lines file, one {"prompt": ...} a line; other keys are left alone.

    Raises:
        ConfigError: the file cannot be read, has no prompts, has a line that is no such object, or has a
            prompt twice.
    """
    # Other line separators of Unicode may stand inside of JSON's texts.
    lines = enumerate(_read(path).split("\n"), 1)
    prompts = tuple(_read_line(path, number, line) for number, line in lines if line.strip())
    if not prompts:
        raise ConfigError(f"{path} has no prompts.", hint='Write one {"prompt": "..."} a line into it.')
    scenario = Scenario(name=path.stem, title=path.name, language=UNDETERMINED, prompts=prompts)
    refuse_repeats([scenario])
    return scenario


def refuse_repeats(scenarios: Sequence[Scenario]) -> None:
    """Sees to it that no prompt is answered twice: what the first answer left behind helps the second.

    Raises:
        ConfigError: a prompt stands twice in a scenario, or in two of them.
    """
    places: dict[str, str] = {}
    for scenario in scenarios:
        for number, prompt in enumerate(scenario.prompts, 1):
            place = f"{number} of {scenario.name}"
            if prompt in places:
                raise ConfigError(
                    f"Prompts {places[prompt]} and {place} are the same, and the second answer to it would be"
                    " measured too fast.",
                    hint="Remove one of the two.",
                )
            places[prompt] = place


def _read_line(path: Path, number: int, line: str) -> str:
    hint = f'Write {{"prompt": "..."}} into line {number}.'
    try:
        value = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"Line {number} of {path} is not JSON.", hint=hint) from error
    if not isinstance(value, dict) or "prompt" not in value:
        raise ConfigError(f"Line {number} of {path} is not an object with the key prompt.", hint=hint)
    prompt = value["prompt"]
    if not _is_text(prompt):
        raise ConfigError(f"The prompt in line {number} of {path} is not a text, or is empty.", hint=hint)
    return prompt


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value.strip() != ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a text in UTF-8.", hint="Save it in UTF-8.") from error
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}.", hint="Check the file's name and its permissions."
        ) from error
