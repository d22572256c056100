"""Makes drafters by recipe: layers first, then the number format, then the vocabulary."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from homespec.catalog.gguf_header import read_header
from homespec.engine.making import write_quantized
from homespec.errors import ConfigError
from homespec.reduce.layers import drop_layers
from homespec.reduce.search import Recipe
from homespec.reduce.trim import trim
from homespec.runtime.quantize import Form
from homespec.runtime.threads import choose_threads


@dataclass(frozen=True, slots=True)
class Workshop:
    """Makes each file once, and keeps it until it is told to tidy up.

    Attributes:
        original: the model that is reduced.
        directory: where files are made.
        counts: of the target's tokens, for the vocabulary.
        heed: called now and then while something is made; may raise.
    """

    original: Path
    directory: Path
    counts: Counter[int]
    heed: Callable[[], None] = lambda: None

    def make(self, recipe: Recipe) -> Path:
        """The file of a recipe; the original's own for the recipe that does nothing.

        Raises:
            HomespecError: the original cannot be reduced so, or there is no room.
        """
        if recipe.is_original:
            return self.original
        path = self._path(recipe)
        if not path.exists():
            self.heed()
            self._make(recipe, path)
        return path

    def _make(self, recipe: Recipe, path: Path) -> None:
        if recipe.num_tokens is not None:
            trim(self.make(replace(recipe, num_tokens=None)), path, self.counts, recipe.num_tokens)
        elif recipe.type_name is not None:
            source = read_header(self.make(replace(recipe, type_name=None)))
            form = Form(recipe.type_name, pure=True, num_threads=choose_threads().num_threads)
            write_quantized(source, path, form, lambda share: self.heed())
        else:
            assert recipe.layers is not None
            drop_layers(self.original, path, recipe.layers)

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls, original: Path, directory: Path, counts: Counter[int], heed: Callable[[], None]
    ) -> Iterator[Workshop]:
        """A workshop of one's own: empty at first, and empty again in the end.

        What a killed process left there was perhaps made from another model.

        Raises:
            ConfigError: another process works there.
        """
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ConfigError(
                    f"Another process reduces a model in {directory.parent}.",
                    hint="Wait until it has finished.",
                ) from error
            shop = cls(original, directory, counts, heed)
            shop.tidy(())
            try:
                yield shop
            finally:
                shop.tidy(())

    def tidy(self, kept: Iterable[Recipe]) -> None:
        """Deletes all files but those of these recipes and what they are made from."""
        wanted: set[Path] = set()
        for recipe in kept:
            whole = replace(recipe, num_tokens=None)
            wanted |= {self._path(part) for part in (recipe, whole, replace(whole, type_name=None))}
        for path in self.directory.iterdir():
            if path not in wanted and path.name != "lock":
                path.unlink()

    def _path(self, recipe: Recipe) -> Path:
        layers = "-".join(map(str, recipe.layers)) if recipe.layers else "all"
        digest = hashlib.sha256(layers.encode()).hexdigest()[:12]
        return self.directory / f"{recipe.type_name}_{recipe.num_tokens}_{digest}.gguf"
