"""What the controller learned survives a run; whatever else lies in its place does no harm."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from homespec.calibration.store import Calibration
from homespec.drafting.suffix import SuffixDrafter
from homespec.engine.control import Control
from tests.unit.test_calibrating import calibrations


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOMESPEC_STATE", str(tmp_path))


def make(*, pinned: bool = False) -> Control:
    target: Calibration | None = calibrations(0.3, 0.2)[0]
    assert target is not None
    return Control([target], 4096, pinned=pinned, strict=False)


def learned(control: Control) -> float:
    """What the control gives a confidence of 0.5 in code."""
    control.controller([SuffixDrafter()], 8, sampled_drafts=False)
    return control._arms["ngram"].probability("code", 0.5)


def learn(control: Control) -> None:
    control.controller([SuffixDrafter()], 8, sampled_drafts=False)
    for _ in range(50):
        control._arms["ngram"].learn("code", 0.5, accepted=True)
    control.save()


def test_experience_is_kept() -> None:
    assert learned(make()) == pytest.approx(0.5)
    learn(make())
    assert learned(make()) > 0.8


def test_pinned_runs_neither_read_nor_write_it() -> None:
    learn(make(pinned=True))
    assert learned(make()) == pytest.approx(0.5)
    learn(make())
    assert learned(make(pinned=True)) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "not json",
        json.dumps({"drafters": None, "gains": None, "costs": None, "measured_at": None}),
        json.dumps({"drafters": {"ngram": []}, "gains": {"code": {}}, "costs": []}),
        json.dumps({"drafters": {"ngram": {"acceptance": []}}, "gains": {"code": {"tokens": -1}}}),
        json.dumps({"drafters": {"ngram": {"acceptance": {"code": 3}, "tallies": {}}}}),
        json.dumps(
            {
                "drafters": {"ngram": {"acceptance": {}, "tallies": {"code": {"x": 1}}}},
                "gains": {"code": {"tokens": 1, "plain_steps": 0}},
            }
        ),
    ],
)
def test_foreign_files_are_as_good_as_none(content: str, tmp_path: Path) -> None:
    learn(make())
    (path,) = (tmp_path / "experience").iterdir()
    path.write_text(content)
    assert learned(make()) == pytest.approx(0.5)


def test_what_real_steps_cost_is_kept_until_the_next_calibration() -> None:
    control = make()
    control.controller([SuffixDrafter()], 8, sampled_drafts=False)
    before = control.foretell("code", 100, looks_up=True)[0]
    for _ in range(100):
        control._curve.observe(1, 100, 0.5 / before)
    control.save()
    later = make()
    assert (
        later.foretell("code", 100, looks_up=True)[0]
        == control.foretell("code", 100, looks_up=True)[0]
        > 1.5 * before
    )
    assert make(pinned=True).foretell("code", 100, looks_up=True)[0] == pytest.approx(before)
    target = calibrations(0.3, 0.2)[0]
    assert target is not None
    anew = Control([replace(target, measured_at=target.measured_at + 1)], 4096, pinned=False, strict=False)
    assert anew.foretell("code", 100, looks_up=True)[0] == pytest.approx(before)


def test_the_foretold_speed_follows_what_each_kind_of_text_yielded() -> None:
    control = make()
    controller = control.controller([SuffixDrafter()], 8, sampled_drafts=False)
    plain, predicted = control.foretell("code", 100, looks_up=True)
    assert predicted == plain
    for _ in range(1000):
        controller._ledger.gain("code").add(3, 2.0)
    control.save()
    for later in (control, make(), make(pinned=True)):
        assert later.foretell("code", 100, looks_up=True)[1] == pytest.approx(1.5 * plain, rel=0.05)
        assert later.foretell("chat", 100, looks_up=True)[1] == pytest.approx(plain)


def test_before_a_kind_was_seen_the_draft_model_s_costs_foretell() -> None:
    target, drafter = calibrations(0.1, 0.2)
    assert target is not None
    assert drafter is not None
    both = Control([target, drafter], 4096, pinned=False, strict=False)
    alone = Control([target], 4096, pinned=False, strict=False)
    plain, predicted = both.foretell("code", 100, looks_up=True)
    # Best at four drafted tokens: 1 + 0.9 + ... + 0.9^4 tokens in 4 x 0.25 + 1.4 s (0.25 because some drafts
    # begin by reading two tokens, which takes 0.4 s); and before that, the draft model reads 128 tokens at
    # 10 a second, for a reply of 256.
    assert predicted / plain == pytest.approx(256 / (256 / (4.0951 / 2.4) + 12.8))
    assert alone.foretell("code", 100, looks_up=True) == (plain, plain)


def test_greedy_changes_of_given_text_are_taken_to_copy_most_of_it() -> None:
    target, _ = calibrations(0.1, 0.2)
    assert target is not None
    control = Control([target], 4096, pinned=False, strict=False)
    plain, predicted = control.foretell("editing", 100, looks_up=True)
    # Most of the reply goes as fast as drafts for nothing of which nine in ten tokens are right.
    copying = max(
        sum(0.9**position for position in range(length + 1)) / (1 + 0.1 * length) for length in range(1, 32)
    )
    assert predicted / plain == pytest.approx(1 / (0.3 + 0.7 / copying))
    for kind, looks_up in (("editing", False), ("editing, sampled", True), ("code", True)):
        assert control.foretell(kind, 100, looks_up=looks_up) == (plain, plain)


def test_nor_does_a_draft_model_that_cannot_pay_make_it_slower() -> None:
    target, drafter = calibrations(1.0, 0.5)
    assert target is not None
    assert drafter is not None
    plain, predicted = Control([target, drafter], 4096, pinned=False, strict=False).foretell(
        "code", 100, looks_up=True
    )
    assert predicted == plain
