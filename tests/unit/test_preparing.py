from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from homespec.engine.preparing import Preparation, prepare
from homespec.engine.settings import EngineSettings
from homespec.errors import ConfigError, ModelNotFoundError

GIB = 1 << 30


def prepared(target: Path, **settings: object) -> Preparation:
    settings.setdefault("memory_bytes", 4 * GIB)
    return prepare(EngineSettings(str(target), **settings))  # type: ignore[arg-type]


def test_ngram_drafts_by_default(tiny_target: Path) -> None:
    preparation = prepared(tiny_target)
    assert preparation.reason == "on"
    assert preparation.uses_ngram
    assert preparation.draft is None
    assert preparation.summary().context_tokens == 512  # what it was trained on


def test_a_named_draft_model_drafts_alone_or_after_ngrams(tiny_target: Path, tiny_near_copy: Path) -> None:
    alone = prepared(tiny_target, draft=str(tiny_near_copy))
    assert (alone.reason, alone.option.kind, alone.uses_ngram) == ("on", "draft", False)
    assert alone.num_shared_tokens == 369
    after = prepared(tiny_target, draft=f"ngram+{tiny_near_copy}")
    assert (after.reason, after.option.kind, after.uses_ngram) == ("on", "draft", True)


def test_obstacles_come_before_memory(tiny_target: Path, tiny_stranger: Path, tiny_recurrent: Path) -> None:
    off = prepared(tiny_target, draft="off")
    assert (off.reason, off.option.kind, off.uses_ngram) == ("off_by_user", "plain", False)
    assert prepared(tiny_target, draft_length=0).reason == "off_by_user"
    stranger = prepared(tiny_target, draft=str(tiny_stranger))
    assert (stranger.reason, stranger.option.kind) == ("vocabulary_mismatch", "plain")
    recurrent = prepared(tiny_recurrent, draft="ngram")
    assert (recurrent.reason, recurrent.option.kind) == ("cannot_roll_back", "plain")


def test_force_overrides_the_plan_and_says_so(tiny_target: Path, tiny_near_copy: Path) -> None:
    # 300 MB are kept for other programs, so that what is left is less than the second model needs.
    settings = {"draft": str(tiny_near_copy), "memory_bytes": 300_000_000 + 65_000_000}
    refused = prepared(tiny_target, **settings)
    assert refused.reason == "would_page"
    forced = prepared(tiny_target, force=True, **settings)
    assert (forced.reason, forced.option.kind) == ("on", "draft")
    assert "Forced" in forced.explanation


def test_max_takes_the_trained_context_where_it_fits(tiny_target: Path) -> None:
    assert prepared(tiny_target, context_tokens="max").option.context_tokens == 512


def test_learned_corrections_enter_the_price(
    tiny_target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from homespec.telemetry.corrections import store_correction

    monkeypatch.setenv("HOMESPEC_STATE", str(tmp_path))
    before = prepared(tiny_target)
    store_correction(before.target.facts.correction_key, 123_456_789)
    after = prepared(tiny_target)
    assert after.option.price.needed_bytes - before.option.price.needed_bytes == 123_456_789


@pytest.mark.parametrize(
    "settings",
    [
        {"kv_type": "f64"},
        {"draft_length": -1},
        {"min_confidence": 2},
        {"num_threads": 0},
        {"context_tokens": 9},
    ],
)
def test_settings_out_of_range(settings: dict[str, object], tiny_target: Path) -> None:
    with pytest.raises(ConfigError):
        prepared(tiny_target, **settings)


def test_a_missing_draft_model_is_told_before_anything_is_loaded(tiny_target: Path) -> None:
    with pytest.raises(ModelNotFoundError):
        prepared(tiny_target, draft="/nowhere/draft.gguf")


def verdicts(target: str, draft: str, context_tokens: int, sizes: Sequence[int]) -> list[str]:
    found: list[str] = []
    for size in sizes:
        preparation = prepare(EngineSettings(target, draft, context_tokens=context_tokens, memory_bytes=size))
        found.append("cannot_run" if preparation.option.verdict == "cannot_run" else preparation.reason)
    return found


@pytest.mark.pair
def test_more_memory_turns_speculation_on_once_and_for_all() -> None:
    from tests.integration.conftest import require

    pair = ("qwen2.5-coder-1.5b-instruct", "qwen2.5-coder-0.5b-instruct")
    require(*pair)
    found = verdicts(*pair, 32768, range(GIB, 6 * GIB + 1, 64 << 20))
    order = [reason for i, reason in enumerate(found) if i == 0 or found[i - 1] != reason]
    assert order == ["cannot_run", "would_page", "would_shrink_context", "on"]
