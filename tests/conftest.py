"""Fixtures that every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import tiny_gguf


@pytest.fixture(scope="session")
def tiny_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A two-layer llama model; see `tests/support/tiny_gguf.py`."""
    return tiny_gguf.target(tmp_path_factory.mktemp("gguf") / "tiny-target.gguf")


@pytest.fixture(scope="session")
def tiny_near_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A draft model for `tiny_target`: same vocabulary, slightly other weights."""
    return tiny_gguf.near_copy(tmp_path_factory.mktemp("gguf") / "tiny-near-copy.gguf")


@pytest.fixture(scope="session")
def tiny_stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose vocabulary is not that of `tiny_target`."""
    return tiny_gguf.stranger(tmp_path_factory.mktemp("gguf") / "tiny-stranger.gguf")


@pytest.fixture(scope="session")
def tiny_recurrent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a running state, which cannot be rolled back."""
    return tiny_gguf.recurrent(tmp_path_factory.mktemp("gguf") / "tiny-recurrent.gguf")
