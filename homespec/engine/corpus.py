"""Texts that replies are expected to quote: found and checked when planning, indexed when an engine opens.

Imports neither llama.cpp nor NumPy.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from homespec.drafting.suffix import CORPUS_BYTES_PER_TOKEN, CORPUS_MAX_BYTES, SuffixIndex, index_corpus
from homespec.errors import ConfigError

# For estimates. Measured: 2.8 to 3.9 for prose and source code in the vocabularies at hand.
_LEAST_BYTES_PER_TOKEN = 2
# What follows is not looked at: no text has so few tokens that the index would have room for it.
_MAX_TEXT_BYTES = 16 * CORPUS_MAX_BYTES // CORPUS_BYTES_PER_TOKEN
# Texts are read and tokenized in pieces, since tokens take ten times the room before they are in the index.
_PIECE_LENGTH = 1 << 16


@dataclass(frozen=True, slots=True)
class CorpusFiles:
    """Text files, the most useful first.

    Attributes:
        paths: regular files, in UTF-8 as far as they will be read.
        text_bytes: their sizes together.
    """

    paths: tuple[Path, ...] = ()
    text_bytes: int = 0

    @property
    def index_bytes(self) -> int:
        """Memory of their index: an upper bound for texts of at least two bytes a token."""
        num_tokens = self.text_bytes // _LEAST_BYTES_PER_TOKEN + len(self.paths)
        return min(CORPUS_MAX_BYTES, num_tokens * CORPUS_BYTES_PER_TOKEN)


def find_corpus(names: Sequence[str | Path]) -> CorpusFiles:
    """Lists the texts that were named, in this order.

    Args:
        names: of text files, and of directories: these stand for all text files below them, sorted, hidden
            files and directories left out. `~` is the home directory.

    Raises:
        ConfigError: a file is missing or no UTF-8 text, or a directory holds no such file.
    """
    paths: list[Path] = []
    text_bytes = 0
    for name in names:
        for path, num_bytes in _texts(name):
            paths.append(path)
            text_bytes += num_bytes
            if text_bytes > _MAX_TEXT_BYTES:
                break
    return CorpusFiles(tuple(paths), text_bytes)


def index_files(files: CorpusFiles, tokenize: Callable[[str], Iterable[int]]) -> SuffixIndex:
    """Reads, tokenizes and indexes texts; takes about a second per megabyte.

    Raises:
        ConfigError: a file has gone since it was found.
    """
    return index_corpus(_tokens(path, tokenize) for path in files.paths)


def _texts(name: str | Path) -> Iterator[tuple[Path, int]]:
    """The files that a name stands for, with their sizes in bytes."""
    try:
        path = Path(name).expanduser()
        if not stat.S_ISDIR(path.stat().st_mode):
            yield path, _check(path)
            return
    except OSError as error:
        raise _refusal(name, f"which cannot be read: {error.strerror}") from None
    except (RuntimeError, ValueError) as error:
        raise _refusal(name, f"which cannot be used: {error}") from None
    num_texts = 0
    for text in _texts_below(path):
        num_texts += 1
        yield text
    if not num_texts:
        raise _refusal(name, "a directory without text files that can be read")


def _texts_below(directory: Path) -> Iterator[tuple[Path, int]]:
    for folder, subfolders, names in os.walk(directory):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            if not name.startswith("."):
                with contextlib.suppress(OSError, ValueError):
                    yield path, _check(path)


def _check(path: Path) -> int:
    """The size of a text file in bytes.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no UTF-8 text; says why.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        # A pipe could be read only once, and for a plan it would be lost.
        raise ValueError("it is no regular file")
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        try:
            while piece := file.read(_PIECE_LENGTH):
                if b"\0" in piece:
                    raise ValueError("it holds NUL bytes, which no text does")
                decoder.decode(piece)
                if file.tell() > _MAX_TEXT_BYTES:
                    return status.st_size
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise ValueError(f"byte 0x{error.object[error.start]:02X} in it is not UTF-8") from None
    return status.st_size


def _refusal(name: str | Path, why: str) -> ConfigError:
    return ConfigError(
        f"--corpus names {name}, {why}.", hint="Name a text file in UTF-8, or a directory with such files."
    )


def _tokens(path: Path, tokenize: Callable[[str], Iterable[int]]) -> Iterator[int]:
    """The tokens of a text, as they are asked for."""
    try:
        # The text was checked; should it have changed, a replaced character just matches nothing.
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            # Pieces end where lines do, so that no word is torn.
            while piece := file.read(_PIECE_LENGTH):
                yield from tokenize(piece + file.readline(_PIECE_LENGTH))
    except OSError as error:
        raise _refusal(path, f"which cannot be read: {error.strerror}") from None
