"""The table model keeps the contract of a TokenModel, so that tests which lean on it mean something."""

from __future__ import annotations

import numpy as np
import pytest

from homespec.contracts import TokenModel
from homespec.errors import CacheRollbackError, DecodeError
from tests.support.branching_chance import BranchingChance, enumerate_outcomes
from tests.support.table_model import TableModel


def test_it_is_a_token_model() -> None:
    assert isinstance(TableModel.random(0, 4), TokenModel)


def test_rows_do_not_depend_on_how_tokens_are_split_into_decodes() -> None:
    tokens = [3, 1, 0, 2, 2]
    whole = TableModel.random(0, 4).decode(tokens)
    model = TableModel.random(0, 4)
    parts = [model.decode(tokens[:1]), model.decode(tokens[1:4]), model.decode(tokens[4:])]
    assert np.concatenate(parts).tolist() == whole.tolist()
    assert whole.tolist() == [model.next_logits(tokens[: end + 1]).tolist() for end in range(5)]


def test_last_and_no_rows() -> None:
    model = TableModel.random(0, 4)
    assert model.decode([1, 2], "none").shape == (0, 4)
    assert model.decode([3, 0], "last").tolist() == [model.next_logits([3, 0]).tolist()]


def test_truncate_forgets() -> None:
    model = TableModel.random(0, 4)
    model.decode([1, 2, 3])
    model.truncate(1)
    assert model.cached_tokens == [1]
    assert model.decode([0]).tolist() == [model.next_logits([1, 0]).tolist()]
    assert (model.num_decodes, model.num_decoded_tokens, model.num_truncates) == (2, 4, 1)
    with pytest.raises(CacheRollbackError):
        model.truncate(3)


def test_a_full_context_refuses_and_keeps_the_cache() -> None:
    model = TableModel.random(0, 4, context_tokens=3)
    model.decode([1, 2])
    with pytest.raises(DecodeError):
        model.decode([1, 2])
    assert model.cached_tokens == [1, 2]


def test_enumeration_takes_every_branch_once() -> None:
    def run(chance: BranchingChance) -> str:
        if chance.happens(0.25):
            return "a"
        return "b" if chance.happens(0.5) else "c"

    assert list(enumerate_outcomes(run)) == [("a", 0.25), ("b", 0.375), ("c", 0.375)]
    assert list(enumerate_outcomes(lambda chance: chance.happens(1.0))) == [(True, 1.0)]
