"""Dropping layers: the file that is written, and the search for the layers to drop."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType

from homespec.catalog.facts import model_facts
from homespec.catalog.gguf_header import read_header
from homespec.errors import ConfigError
from homespec.reduce.agreement import agreement, greedy_sample
from homespec.reduce.gguf_file import read_gguf
from homespec.reduce.layer_search import Layers, greedy_search
from homespec.reduce.layers import drop_layers, evenly_spaced
from homespec.reduce.trial import LayerTrial
from homespec.reduce.trim import trim
from tests.support import tiny_families
from tests.support.opened import logits_after, opened
from tests.support.table_model import TableModel
from tests.support.tiny_families import ARCHITECTURES


@pytest.mark.parametrize("num_layers", [1, 2, 7, 28])
def test_evenly_spaced_layers(num_layers: int) -> None:
    for num_kept in range(1, num_layers + 1):
        kept = evenly_spaced(num_layers, num_kept)
        assert len(set(kept)) == num_kept
        assert list(kept) == sorted(kept)
        assert num_kept == 1 or (kept[0], kept[-1]) == (0, num_layers - 1)
        steps = {second - first for first, second in pairwise(kept)}
        assert not steps or max(steps) - min(steps) <= 1
    for num_kept in (0, num_layers + 1):
        with pytest.raises(ConfigError, match=f"there are {num_layers}"):
            evenly_spaced(num_layers, num_kept)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_layers_are_the_model_itself(tmp_path: Path, architecture: str) -> None:
    source = tiny_families.write(tmp_path / "s.gguf", architecture, num_layers=7)
    drop_layers(source, tmp_path / "d.gguf", range(7))
    tokens = list(range(260, 310))  # longer than gemma3's window
    np.testing.assert_array_equal(
        logits_after_all(tmp_path / "d.gguf", tokens), logits_after_all(source, tokens)
    )


def logits_after_all(path: Path, tokens: list[int]) -> np.ndarray:
    with opened(path, max_rows=64) as context:
        return context.decode(tokens).copy()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_shallower_model_is_what_the_kept_layers_compute(tmp_path: Path, architecture: str) -> None:
    """Layers that add nothing to the residual stream can be dropped without a trace."""
    source = tiny_families.write(tmp_path / "s.gguf", architecture, num_layers=7, silent_layers=(1, 2, 5))
    drop_layers(source, tmp_path / "d.gguf", [0, 3, 4, 6])
    facts = model_facts(read_header(tmp_path / "d.gguf"))
    assert facts.num_layers == 4
    tokens = list(range(260, 310))
    np.testing.assert_allclose(
        logits_after_all(tmp_path / "d.gguf", tokens), logits_after_all(source, tokens), rtol=0, atol=1e-4
    )


def test_what_a_file_says_per_layer_is_cut_down(tmp_path: Path) -> None:
    source = tiny_families.write(tmp_path / "s.gguf", "gemma3", num_layers=7)
    drop_layers(source, tmp_path / "d.gguf", [0, 5, 6])
    metadata = read_gguf(tmp_path / "d.gguf").metadata
    assert metadata["gemma3.attention.sliding_window_pattern"].value == [True, False, True]
    assert metadata["gemma3.block_count"].value == 3
    assert metadata["homespec.recipe"].value == [b"keep layers: 0, 5-6 of 7"]
    drop_layers(tmp_path / "d.gguf", tmp_path / "e.gguf", [1, 2])
    metadata = read_gguf(tmp_path / "e.gguf").metadata
    assert metadata["gemma3.attention.sliding_window_pattern"].value == [False, True]
    assert metadata["homespec.recipe"].value == [b"keep layers: 0, 5-6 of 7", b"keep layers: 1-2 of 3"]
    assert metadata["homespec.source.name"].value == "s"
    # Written by the quantizer or by hand, per layer: llama's feed-forward lengths.
    source = tiny_families.write(tmp_path / "l.gguf", "llama")
    drop_layers(source, tmp_path / "d.gguf", [0, 2])
    assert len(read_gguf(tmp_path / "d.gguf").array("llama.feed_forward_length")) == 2


def test_dropping_is_deterministic_and_trimming_may_follow(tmp_path: Path) -> None:
    source = tiny_families.write(tmp_path / "s.gguf", "qwen2", embedding_type=GGMLQuantizationType.Q8_0)
    for name in ("a.gguf", "b.gguf"):
        drop_layers(source, tmp_path / name, [0, 2])
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()
    trim(tmp_path / "a.gguf", tmp_path / "t.gguf", {}, 320)
    assert logits_after(tmp_path / "t.gguf", [5, 6]).shape == (2, 320)
    assert len(read_gguf(tmp_path / "t.gguf").array("homespec.recipe")) == 2


@pytest.mark.parametrize("kept", [[], [0, 3], [1, 0], [0, 0], [-1]])
def test_impossible_layers_are_refused(tmp_path: Path, kept: list[int]) -> None:
    source = tiny_families.write(tmp_path / "s.gguf", "llama")
    with pytest.raises(ConfigError, match="layers 0 to 2"):
        drop_layers(source, tmp_path / "d.gguf", kept)


class Made:
    """Scores by a weight per layer that is missed, growing with every layer that is missing."""

    def __init__(self, weights: list[float]) -> None:
        self.weights = weights
        self.calls: list[Layers] = []
        self.now = 0.0

    def __call__(self, kept: Layers) -> float:
        self.calls.append(kept)
        self.now += 1.0
        dropped = [weight for layer, weight in enumerate(self.weights) if layer not in kept]
        return 1.0 - sum(dropped) * (1 + 0.01 * len(dropped))

    def clock(self) -> float:
        return self.now


WEIGHTS = [0.30, 0.01, 0.02, 0.08, 0.03, 0.05, 0.04, 0.20]


def test_the_search_drops_what_is_missed_least_and_asks_little() -> None:
    made = Made(WEIGHTS)
    result = greedy_search(8, 4, made)
    assert result.kept == (0, 3, 5, 7)
    assert result.finished
    assert result.score > result.spaced_score
    assert [len(kept) for kept, _ in result.path] == [7, 6, 5, 4]
    # All of the first round, two or three of each later one.
    assert result.num_evaluations == len(made.calls) <= 1 + 8 + 3 * 3
    assert len(set(made.calls)) == len(made.calls)


def test_evenly_spaced_layers_win_where_they_are_better() -> None:
    def evaluate(kept: Layers) -> float:
        return 1.0 if kept == evenly_spaced(6, 3) else 0.5 + 0.01 * len(kept)

    result = greedy_search(6, 3, evaluate)
    assert (result.kept, result.score) == (evenly_spaced(6, 3), 1.0)


def test_a_search_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    state = tmp_path / "search.json"

    class StoppedError(Exception):
        pass

    def stop_after_five(kept: Layers, score: float) -> None:
        if len(first.calls) == 5:
            raise StoppedError

    first, second, undisturbed = Made(WEIGHTS), Made(WEIGHTS), Made(WEIGHTS)
    with pytest.raises(StoppedError):
        greedy_search(8, 4, first, state=state, identity="a", on_evaluated=stop_after_five)
    result = greedy_search(8, 4, second, state=state, identity="a")
    assert result.kept == greedy_search(8, 4, undisturbed).kept
    assert first.calls + second.calls == undisturbed.calls
    # Fewer layers begin with what is known.
    third = Made(WEIGHTS)
    greedy_search(8, 3, third, state=state, identity="a")
    assert 0 < len(third.calls) < 5
    # Of something else nothing is known, nor from a file that cannot be read.
    other = Made(WEIGHTS)
    greedy_search(8, 4, other, state=state, identity="b")
    assert other.calls == undisturbed.calls
    state.write_text("{}")
    again = Made(WEIGHTS)
    greedy_search(8, 4, again, state=state, identity="b")
    assert again.calls == undisturbed.calls


@pytest.mark.parametrize("budget_seconds", [0.0, 5.0, 10.0])
def test_a_search_out_of_time_still_answers(budget_seconds: float) -> None:
    made = Made(WEIGHTS)
    result = greedy_search(8, 4, made, budget_seconds=budget_seconds, clock=made.clock)
    assert not result.finished
    assert len(result.kept) == 4
    assert result.score >= result.spaced_score
    assert len(made.calls) <= budget_seconds + 2  # evenly spaced ones, and the answer
    if budget_seconds >= 9:  # after a whole round the order is known
        assert result.kept == (0, 3, 5, 7)


@pytest.mark.parametrize("num_measured", range(6, 30, 4))
def test_out_of_time_the_layers_at_the_ends_are_kept_and_the_least_missed_neighbours_go(
    num_measured: int,
) -> None:
    """As in most models: the first layers are indispensable, and some stretch behind the middle is not."""
    weights = [0.5, 0.4, *(0.002 * abs(layer - 20) + 0.01 for layer in range(2, 29)), 0.3]
    made = Made(weights)
    result = greedy_search(30, 22, made, budget_seconds=1.0 + num_measured, clock=made.clock)
    assert not result.finished
    dropped = set(range(30)) - set(result.kept)
    assert dropped <= set(range(12, 29))
    assert result.score > result.spaced_score


def test_keeping_every_layer_needs_no_search() -> None:
    made = Made(WEIGHTS)
    result = greedy_search(8, 8, made)
    assert (result.kept, result.path, len(made.calls)) == (tuple(range(8)), (), 1)


def test_agreement_is_the_share_of_equal_greedy_choices() -> None:
    target = TableModel.random(1, 9)
    samples = [greedy_sample(target, prompt, 100, lambda token: False) for prompt in ((3,), (1, 2, 4))]
    assert [len(sample.reply) for sample in samples] == [100, 100]
    assert agreement(target, samples) == 1.0
    other = TableModel.random(2, 9)
    equal = [
        int(other.next_logits([*sample.prompt, *sample.reply[:place]]).argmax()) == token
        for sample in samples
        for place, token in enumerate(sample.reply)
    ]
    assert 0 < agreement(other, samples) == sum(equal) / 200 < 1


def test_a_sample_ends_with_an_end_token() -> None:
    target = TableModel.random(1, 9)
    whole = greedy_sample(target, (3,), 30, lambda token: False).reply
    ended = greedy_sample(target, (3,), 30, lambda token: token == whole[2]).reply
    assert ended == whole[: whole.index(whole[2]) + 1]


def test_the_search_on_a_real_file_drops_the_silent_layers(tmp_path: Path) -> None:
    source = tiny_families.write(tmp_path / "s.gguf", "qwen2", num_layers=5, silent_layers=(1, 3))
    with opened(source, max_rows=1) as target:
        samples = [greedy_sample(target, [start, 270], 40, lambda token: False) for start in (261, 280)]
    trial = LayerTrial(source, samples, tmp_path / "scratch.gguf", num_threads=1)
    result = greedy_search(trial.num_layers, 3, trial, identity=trial.identity)
    assert result.kept == (0, 2, 4)
    assert result.score == 1.0
    assert [path.name for path in tmp_path.iterdir()] == ["s.gguf"]
