"""What steps yielded and what they took. Time is counted in plain steps: decodes of one token.

So what was learned in a busy hour holds in a quiet one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Sums of tokens and time forget with this factor per step: a memory of some 60 steps.
_FORGETTING = 0.984
# Tries may take this share of all time.
_PROBE_SHARE = 0.008
# How far back the foretold speed looks.
_GAIN_MEMORY_STEPS = 4000.0
# What a kind of text is taken for before it has been seen: little weight, and replies of this length.
_FIRST_WEIGHT_STEPS, _USUAL_REPLY_TOKENS = 16.0, 160.0
_LEAST_TOKENS_LEFT = 32.0
# Greedy texts of these kinds mostly copy what they were given; the share of a reply that is taken to be new.
COPYING_KINDS, NEW_SHARE = ("editing", "rewriting"), 0.3


@dataclass(slots=True)
class Tally:
    """Steps, the tokens they yielded and the time they took, and how many drafted tokens were accepted.

    All fade. Before anything is known, a usual draft model's acceptance is taken for granted.
    """

    steps: float = 0.0
    tokens: float = 0.0
    plain_steps: float = 0.0
    accepted: float = 9.0
    judged: float = 10.0

    def add(self, tokens: int, plain_steps: float) -> None:
        """Takes a step into account."""
        self.steps = self.steps * _FORGETTING + 1
        self.tokens = self.tokens * _FORGETTING + tokens
        self.plain_steps = self.plain_steps * _FORGETTING + plain_steps

    def judge(self, *, accepted: bool) -> None:
        """Takes a drafted token into account."""
        self.judged = self.judged * _FORGETTING + 1
        self.accepted = self.accepted * _FORGETTING + accepted

    @property
    def acceptance(self) -> float:
        """Part of the drafted tokens that were accepted, of those of which everything before was."""
        return self.accepted / self.judged


@dataclass(slots=True)
class Gain:
    """How fast a kind of text went under control, to foretell how fast the next one will go.

    Attributes:
        tokens: committed; at first, a little plain decoding.
        plain_steps: the time that took, everything included.
        replies: how many they were.
        free_tokens: of them those that free drafts yielded.
    """

    tokens: float = _FIRST_WEIGHT_STEPS
    plain_steps: float = _FIRST_WEIGHT_STEPS
    replies: float = 0.0
    free_tokens: float = 0.0

    def add(self, tokens: int, plain_steps: float, free_tokens: int = 0) -> None:
        """Takes a step into account; what is old counts less and less."""
        if self.plain_steps > _GAIN_MEMORY_STEPS:
            self.tokens /= 2
            self.plain_steps /= 2
            self.replies /= 2
            self.free_tokens /= 2
        self.free_tokens += free_tokens
        self.tokens += tokens
        self.plain_steps += plain_steps

    @property
    def speedup(self) -> float:
        """Over plain decoding."""
        return self.tokens / self.plain_steps if self.plain_steps else 1.0

    @property
    def new_tokens(self) -> float:
        """Those that free drafts did not yield: what a draft model can help with."""
        return self.tokens - self.free_tokens


@dataclass(slots=True)
class Ledger:
    """What trying things out has cost, and what all steps yielded. It outlives requests.

    Attributes:
        probe_steps, total_steps: time of tries, and of everything, in plain steps. Many short requests do not
            each try everything.
        gains: kind of text -> how fast it went.
    """

    probe_steps: float = 0.0
    total_steps: float = 0.0
    gains: dict[str, Gain] = field(default_factory=dict)

    def may_try(self, steps: float = 0.0) -> bool:
        """Whether another try, which is known to take so many plain steps, is within the share of tries."""
        return self.probe_steps + steps <= _PROBE_SHARE * self.total_steps

    def gain(self, kind: str) -> Gain:
        """Of a kind of text."""
        return self.gains.setdefault(kind, Gain())

    def tokens_left(self, kind: str, reply: Gain) -> float:
        """How many more tokens of a reply may be expected to need more than free drafts.

        Copies come in bursts, so they do not count at either end.

        Args:
            kind: of the text; what its replies were like so far decides, and at first what is usual.
            reply: what was gained in it so far.
        """
        gain = self.gain(kind)
        usual = _USUAL_REPLY_TOKENS * (NEW_SHARE if kind in COPYING_KINDS else 1.0)
        expected = (gain.new_tokens + usual) / (gain.replies + 1)
        return max(_LEAST_TOKENS_LEFT, expected - reply.new_tokens)
