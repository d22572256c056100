"""Fixtures that every test may use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import tiny_gguf


@pytest.fixture(scope="session", autouse=True)
def state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Measurements and experience of the user are neither read nor written, by subprocesses either."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOMESPEC_STATE", str(tmp_path_factory.mktemp("state")))
        yield


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
