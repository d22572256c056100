"""A drafter under control, and what is known about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from homespec.contracts import Drafter
from homespec.drafting.acceptance import AcceptanceModel
from homespec.drafting.ledger import Tally
from homespec.drafting.length import Rates, best_hope

# How many tokens a step with a draft model is taken to yield before it has been tried.
_USUAL_STEP_TOKENS = 3.0
# In use decodes cost some percent more than when they were measured: a smaller gain may not be there.
_LEAST_GAIN = 0.02
# What acceptance and costs promise counts like so many steps beside those that were made: one bad draft is no
# verdict, and a drafter that does not keep its promise is found out.
_PROMISE_STEPS = 12.0


@dataclass(slots=True)
class Arm:
    """A drafter under control.

    Attributes:
        drafter: what proposes.
        acceptance: kind of text -> of its tokens, by confidence.
        token_steps: time of drafting one token, in plain steps; 0 for a drafter that may be asked always.
        catch_up_steps: time per token of history that the drafter has not seen yet, in plain steps.
        behind: how many tokens of a history those are.
        deterministic: its drafts are not sampled, and may be cut by what is in them.
        tallies: kind of text -> how the steps went in which it was asked (only where asking costs something).
        idle_steps: since it was asked last.
    """

    drafter: Drafter
    acceptance: dict[str, AcceptanceModel] = field(default_factory=dict)
    token_steps: float = 0.0
    catch_up_steps: float = 0.0
    behind: Callable[[Sequence[int]], int] = lambda tokens: 0
    deterministic: bool = True
    tallies: dict[str, Tally] = field(default_factory=dict)
    idle_steps: int = 0

    @property
    def is_free(self) -> bool:
        """Whether it can be asked in every step."""
        return self.token_steps == 0.0

    def probability(self, kind: str, confidence: float) -> float:
        """That a token of this confidence is accepted, if those before it are."""
        return self.acceptance.setdefault(kind, AcceptanceModel()).probability(confidence)

    def learn(self, kind: str, confidence: float, *, accepted: bool) -> None:
        """Takes one judged token into account."""
        self.acceptance.setdefault(kind, AcceptanceModel()).learn(confidence, accepted)
        self.tally(kind).judge(accepted=accepted)

    def tally(self, kind: str) -> Tally:
        """Of this kind of text."""
        return self.tallies.setdefault(kind, Tally())

    def promise(self, kind: str, rates: Rates, num_behind: int, tokens_left: float) -> float:
        """What a step with this drafter is worth, by its acceptance and costs, and by the steps it made.

        Args:
            kind: of the text.
            rates: of this step.
            num_behind: tokens that it must read first, which the rest of the reply has to earn back.
            tokens_left: of the reply, without those from free drafts, as far as can be expected.
        """
        tally = self.tally(kind)
        hope = best_hope(rates, self.token_steps, tally.acceptance)
        record = tally.tokens - rates.speedup * tally.plain_steps
        num_steps = tally.steps + _PROMISE_STEPS
        step_tokens = (tally.tokens + _PROMISE_STEPS * _USUAL_STEP_TOKENS) / num_steps
        catch_up = rates.speedup * self.catch_up_steps * num_behind * step_tokens / tokens_left
        # Reading is a certain cost, the gain a hope: whoever has shown little must promise more.
        catch_up *= 1 + _PROMISE_STEPS / num_steps
        return (record + _PROMISE_STEPS * hope) / num_steps - catch_up - _LEAST_GAIN * step_tokens
