"""The arms of a bench: who drafts, and how much in every step; and the order in which they take turns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from homespec.engine.settings import AUTO_DRAFT_LENGTH, DrafterName, FixedDraft
from homespec.errors import ConfigError

_FIXED = re.compile(r"(ngram|draft-model|ngram\+draft-model)[ :](\d{1,3})")


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to answer.

    Attributes:
        name: such as `plain`, `ngram 5` or `auto`.
        fixed: how it drafts; None leaves the choice to the engine.
    """

    name: str
    fixed: FixedDraft | None

    @property
    def drafters(self) -> tuple[DrafterName, ...]:
        """Whom it needs; the engine's own choice needs nobody in particular."""
        return self.fixed.drafters if self.fixed is not None else ()


PLAIN, AUTO = Arm("plain", FixedDraft()), Arm("auto", None)


def parse_arm(text: str) -> Arm:
    """The arm of a name: `plain`, `auto`, or drafters and a length, such as `ngram+draft-model 5`.

    Raises:
        ConfigError: there is no such arm.
    """
    for arm in (PLAIN, AUTO):
        if text == arm.name:
            return arm
    match = _FIXED.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"{text!r} is no arm of a bench.",
            hint='Name plain, auto, or who drafts how many tokens: "ngram 5", "draft-model 3", '
            '"ngram+draft-model 5".',
        )
    return make_fixed(match[1], int(match[2]))


def make_fixed(drafters: str, length: int) -> Arm:
    """An arm of fixed length.

    Raises:
        ConfigError: the engine is not opened for drafts of that length.
    """
    if not 1 <= length <= AUTO_DRAFT_LENGTH:
        raise ConfigError(
            f"An arm drafts {length} tokens per step; 1 to {AUTO_DRAFT_LENGTH} are possible.",
            hint="Choose a length such as 5.",
        )
    names: tuple[DrafterName, ...] = tuple(drafters.split("+"))  # type: ignore[arg-type]
    return Arm(f"{drafters} {length}", FixedDraft(names, length))


def make_arms(names: Sequence[str], lengths: Sequence[int], *, has_draft_model: bool) -> list[Arm]:
    """The arms that were asked for, plain decoding first; without any name, all that are possible.

    Args:
        names: see `parse_arm`.
        lengths: of the fixed arms, where no name is given.
        has_draft_model: whether there is one.

    Raises:
        ConfigError: a name is no arm's, or needs a draft model that is not there.
    """
    if not names:
        drafters = ["ngram", "draft-model", "ngram+draft-model"] if has_draft_model else ["ngram"]
        return [PLAIN, *(make_fixed(name, length) for name in drafters for length in lengths), AUTO]
    arms = list({arm.name: arm for arm in (PLAIN, *map(parse_arm, names))}.values())
    for arm in arms:
        if "draft-model" in arm.drafters and not has_draft_model:
            raise ConfigError(
                f"The arm {arm.name!r} needs a draft model, and none is planned.",
                hint="Name one with --draft.",
            )
    return arms


def in_turn(arms: Sequence[Arm], turn: int) -> list[Arm]:
    """A B, then B A, and so on, so that what drifts meanwhile (heat, caches) does not favour one arm."""
    return list(reversed(arms)) if turn % 2 else list(arms)
