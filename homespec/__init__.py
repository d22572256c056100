"""Exact speculative decoding of GGUF models on machines without a GPU.

from homespec import Engine

with Engine("smollm2-135m-instruct") as engine:
    print(engine.session().reply("Why is the sky blue?").text)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from homespec.engine.engine import Engine
    from homespec.engine.session import Session
    from homespec.records import RequestParams, SamplingParams

__all__ = ["Engine", "RequestParams", "SamplingParams", "Session", "__version__"]
__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())

_HOMES = {
    "Engine": "homespec.engine.engine",
    "Session": "homespec.engine.session",
    "RequestParams": "homespec.records",
    "SamplingParams": "homespec.records",
}


def __getattr__(name: str) -> object:
    # Loaded on first use: `homespec --help` must import neither llama_cpp nor NumPy.
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    return value
