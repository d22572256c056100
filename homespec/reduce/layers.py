"""Fewer layers: a shallower model of a model's own layers, and the search for those that it misses least.

    drop_layers(source, destination, kept=evenly_spaced(24, 18))

For self-speculation the source is the target itself. The written file holds copies of the layers that it
keeps: as a draft model it takes memory of its own, and the plan prices it so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gguf import GGUFValueType

from homespec.errors import ConfigError
from homespec.reduce.gguf_file import Entry, GgufModel, Scalar, read_gguf, write_gguf
from homespec.reduce.provenance import with_step

_BLOCK = re.compile(r"blk\.(\d+)\.(.*)")
# Which layers of gemma3 have a sliding window, where the file does not say (src/models/gemma3.cpp): all but
# each sixth.
_GEMMA3_PERIOD = 6


def evenly_spaced(num_layers: int, num_kept: int) -> tuple[int, ...]:
    """Layers to keep, the first and the last among them: the guess before anything is measured.

    Raises:
        ConfigError: there are not so many.
    """
    if not 1 <= num_kept <= num_layers:
        raise ConfigError(
            f"{num_kept} layers were asked for; there are {num_layers}.",
            hint=f"Choose a number from 1 to {num_layers}.",
        )
    if num_kept == 1:
        return (0,)
    last = num_layers - 1
    # Rounded half up, so that the steps between neighbours differ by one at most.
    return tuple((2 * index * last + num_kept - 1) // (2 * (num_kept - 1)) for index in range(num_kept))


def drop_layers(source: Path, destination: Path, kept: Sequence[int]) -> None:
    """Writes a model of some of a model's layers.

    Args:
        source: a GGUF file in any number format.
        destination: the GGUF file to write, whole or not at all; equal inputs give equal bytes.
        kept: indices of the layers to keep, ascending.

    Raises:
        ConfigError: there are no such layers.
        ModelFormatError: the source cannot be read, or has an architecture that cannot be reduced.
        HomespecError: the destination cannot be written.
    """
    model = read_gguf(source)
    shallower = with_layers(model, kept)
    write_gguf(destination, with_step(shallower, f"keep layers: {_ranges(kept)} of {num_layers(model)}"))


def num_layers(model: GgufModel) -> int:
    """How many layers the model has."""
    return model.metadata[f"{model.architecture}.block_count"].number


def with_layers(model: GgufModel, kept: Sequence[int]) -> GgufModel:
    """The model with these layers only, numbered anew; the tensors are still those of the file.

    Raises:
        ConfigError: there are no such layers.
    """
    count = num_layers(model)
    if not kept or list(kept) != sorted({layer for layer in kept if 0 <= layer < count}):
        raise ConfigError(
            f"The layers {', '.join(map(str, kept)) or 'none'} were to be kept; {model.path.name} has the "
            f"layers 0 to {count - 1}.",
            hint="Name them once each, in ascending order.",
        )
    places = {old: new for new, old in enumerate(kept)}
    tensors = []
    for tensor in model.tensors:
        match = _BLOCK.fullmatch(tensor.name)
        if match is None:
            tensors.append(tensor)
        elif (place := places.get(int(match[1]))) is not None:
            tensors.append(replace(tensor, name=f"blk.{place}.{match[2]}"))
    return replace(model, metadata=_shallower_metadata(model, kept, count), tensors=tuple(tensors))


def _shallower_metadata(model: GgufModel, kept: Sequence[int], count: int) -> dict[str, Entry]:
    """The metadata with arrays that have an element per layer cut down."""
    prefix = f"{model.architecture}."
    metadata = dict(model.metadata)
    if model.architecture == "gemma3":
        metadata[f"{prefix}attention.sliding_window_pattern"] = _window_pattern(model, count)
    for key, entry in metadata.items():
        if key.startswith(prefix) and len(entry.elements) == count:
            metadata[key] = replace(entry, value=[entry.elements[layer] for layer in kept])
    block_count = f"{prefix}block_count"
    metadata[block_count] = replace(metadata[block_count], value=len(kept))
    return metadata


def _window_pattern(model: GgufModel, count: int) -> Entry:
    """For each layer of gemma3 whether it has a sliding window, which its place would no longer tell."""
    given = model.metadata.get("gemma3.attention.sliding_window_pattern")
    if given is not None and given.element_type is not None:
        return given
    period = given.number if given is not None else _GEMMA3_PERIOD
    pattern: list[Scalar] = [period == 0 or layer % period < period - 1 for layer in range(count)]
    return Entry(pattern, GGUFValueType.ARRAY, GGUFValueType.BOOL)


def _ranges(layers: Sequence[int]) -> str:
    """Layers as people write them: 0-5, 8, 10-23."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and runs[-1][-1] == layer - 1:
            runs[-1][1:] = [layer]
        else:
            runs.append([layer])
    return ", ".join("-".join(map(str, run)) for run in runs)
