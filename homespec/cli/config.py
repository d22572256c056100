"""Defaults of options from the user's configuration file.

What an option is worth: its flag, else `HOMESPEC_<OPTION>`, else the file, else the default. The file is
`config.toml` in the XDG configuration directory of homespec, or what `HOMESPEC_CONFIG` names; each table is a
command, each key an option as on the command line:

    [run]
    model = "qwen2.5-coder-1.5b-instruct"
    temperature = 0.2
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs

from homespec.errors import ConfigError

CONFIG_VARIABLE = "HOMESPEC_CONFIG"


def config_path() -> Path:
    """Where the configuration file is looked for."""
    named = os.environ.get(CONFIG_VARIABLE)
    return Path(named).expanduser() if named else platformdirs.user_config_path("homespec") / "config.toml"


def load_defaults() -> dict[str, dict[str, Any]]:
    """The file's tables, in the form of click's `default_map`; empty when there is no file.

    Raises:
        ConfigError: the file is not TOML, or holds something that is no table of a command. Unknown keys are
            found by `check_keys` when their command runs.
    """
    path = config_path()
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if CONFIG_VARIABLE in os.environ:
            raise ConfigError(f"{CONFIG_VARIABLE} names {path}, which is not there.") from None
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}.", hint="Correct the file, or move it away."
        ) from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(
                f"{path} sets {name!r} outside of a table.",
                hint=f"Put it below the command's name: [run]\n{name} = ...",
            )
    return {
        name: {key.replace("-", "_"): value for key, value in table.items()} for name, table in tables.items()
    }


def check_keys(command: str, known: set[str], defaults: Mapping[str, Any] | None) -> None:
    """Refuses keys that the command has no option for.

    Raises:
        ConfigError: names the file and the first such key.
    """
    for key in sorted(set(defaults or {}) - known):
        raise ConfigError(
            f"{config_path()} sets {key!r} for `{command}`, which has no such option.",
            hint=f"See `homespec {command} --help`.",
        )
