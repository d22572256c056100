"""Files in prompts: `@path` stands for the file's text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from homespec.errors import ConfigError
from homespec.units import format_bytes

# More than this fits into no context that a CPU fills in reasonable time.
MAX_FILE_BYTES = 1_000_000
# At the start of a word: `@path`, or `@"path with spaces"`; `\@` is a plain @.
_REFERENCE = re.compile(r'(?<!\S)(\\?)@(?:"([^"\n]+)"|([^\s"]+))')
_TRAILING = ".,;:!?)"


@dataclass(frozen=True, slots=True)
class Expanded:
    """A prompt with its files.

    Attributes:
        text: for the model.
        notes: a line for each file.
    """

    text: str
    notes: tuple[str, ...] = ()


def expand(text: str) -> Expanded:
    """Puts the files that a prompt names below it.

    `@word` that looks like no path and names no file (a handle, say) stays as it is.

    Raises:
        ConfigError: a path names no file, or one that is too large, or no text.
    """
    files: dict[Path, str] = {}

    def replace(match: re.Match[str]) -> str:
        escaped, quoted, bare = match.groups()
        if escaped:
            return match[0][1:]
        name, rest = (quoted, "") if quoted else _split_path(bare)
        path = Path(name).expanduser()
        if not path.exists() and not quoted and not ("/" in name or "." in name.strip(".")):
            return match[0]
        files[path] = read_text(path)
        return f"{name}{rest}"

    prompt = _REFERENCE.sub(replace, text)
    notes = tuple(f"{path}: {format_bytes(len(content.encode()))} of text" for path, content in files.items())
    return Expanded("\n\n".join([prompt, *(_as_block(path, files[path]) for path in files)]), notes)


def _split_path(text: str) -> tuple[str, str]:
    """A path and the punctuation of the sentence behind it."""
    if Path(text).expanduser().exists():
        return text, ""
    bare = text.rstrip(_TRAILING)
    return (bare, text[len(bare) :]) if bare else (text, "")


def read_text(path: str | Path) -> str:
    """The text of a file that the user names.

    Raises:
        ConfigError: there is none, or it is too large, or no text.
    """
    path = Path(path).expanduser()
    plain_at = f"Write \\@{path} if you mean the text itself."
    try:
        if path.is_dir():
            raise ConfigError(f"{path} is a directory.", hint=f"Name a file in it. {plain_at}")
        if not path.is_file():
            raise ConfigError(f"There is no file {path}.", hint=f"Correct the path. {plain_at}")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise ConfigError(
                f"{path} has {format_bytes(size)}; at most {format_bytes(MAX_FILE_BYTES)} go into a prompt.",
                hint="Cut out the part that matters, and name that.",
            )
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", hint=plain_at) from None
    if b"\0" in content:
        raise ConfigError(f"{path} is a binary file, not text.", hint=plain_at)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not UTF-8 text: byte {error.start:,} is {content[error.start]:#x}.",
            hint=f"Convert it to UTF-8. {plain_at}",
        ) from None


def _as_block(path: Path, content: str) -> str:
    longest = max((len(run) for run in re.findall("`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"File {path}:\n{fence}{path.suffix.removeprefix('.')}\n{content.rstrip()}\n{fence}"
