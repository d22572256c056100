"""What a reduced file says about how it was made, under `homespec.*` in its metadata.

    homespec.source.name      the file that the first step began with, without `.gguf`
    homespec.source.sha256    of that file
    homespec.recipe           one text per step, in order
    homespec.version          of the homespec that made the last step

llama.cpp and its quantizer carry these keys along. `catalog.facts` reads the name for the plan.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from dataclasses import replace

from gguf import GGUFValueType

from homespec.reduce.gguf_file import Entry, GgufModel
from homespec.runtime.trim_layout import MADE_BY_VERSION, SOURCE_NAME, SOURCE_SHA256

_RECIPE = "homespec.recipe"


def with_step(model: GgufModel, step: str) -> GgufModel:
    """The model with one more step in its provenance.

    Args:
        model: its path is the file that the step begins with.
        step: what was done, with its settings, in a few words.

    Raises:
        OSError: the file cannot be read.
    """
    added: dict[str, Entry] = {}
    if SOURCE_NAME not in model.metadata:
        with model.path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        added[SOURCE_NAME] = Entry(model.path.stem, GGUFValueType.STRING)
        added[SOURCE_SHA256] = Entry(sha256, GGUFValueType.STRING)
    recipe = [*model.array(_RECIPE), step.encode()]
    added[_RECIPE] = Entry(recipe, GGUFValueType.ARRAY, GGUFValueType.STRING)
    added[MADE_BY_VERSION] = Entry(importlib.metadata.version("homespec"), GGUFValueType.STRING)
    return replace(model, metadata={**model.metadata, **added})
