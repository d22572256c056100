"""The data that flows through homespec: frozen, slotted, without behaviour beyond derived figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float32] | npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]
else:
    # The names stand in annotations only. Planning handles records and must not pay for importing NumPy.
    FloatArray = IntArray = object

FinishReason = Literal["stop", "length", "context", "interrupted"]
ReasonCode = Literal[
    "on",
    "off_by_user",
    "would_page",
    "would_shrink_context",
    "no_gain",
    "not_calibrated",
    "vocabulary_mismatch",
    "cannot_roll_back",
    "no_drafter",
    "drafter_failed",
]
VerifierName = Literal["greedy", "rejection", "block", "coupled"]
Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation.

    Attributes:
        role: who says it.
        content: its text.
        token_ids: of an assistant's message, as they were generated: the same text can have several
            tokenizations, and the KV cache holds this one. Ignored where they do not spell `content`.
    """

    role: Role
    content: str
    token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TokenDistribution:
    """A probability distribution over tokens, stored on its support.

    Attributes:
        ids: shape (n,), int64, strictly ascending token ids with a probability above zero or possibly so.
        weights: shape (n,), float32 or float64: the probabilities up to a common factor, with a finite sum
            above zero. A draw needs no more, and to divide a whole vocabulary takes as long as its
            exponentials do. Tokens outside `ids` have probability zero.
    """

    ids: IntArray
    weights: FloatArray

    @property
    def total(self) -> float:
        """The sum of the weights."""
        return float(self.weights.sum(dtype="float64"))

    @property
    def largest(self) -> float:
        """The probability of the most probable token."""
        return float(self.weights.max()) / self.total

    @property
    def probs(self) -> npt.NDArray[np.float64]:
        """Shape (n,), float64, sums to 1; computed anew each time."""
        return self.weights.astype("float64") / self.total


@dataclass(frozen=True, slots=True)
class Draft:
    """What a drafter proposes to follow the history.

    Attributes:
        tokens: the proposed tokens, possibly none.
        probs: for each token the distribution that it was drawn from; None when the drafter is
            deterministic (each distribution is then one-hot).
        confidences: for each token the drafter's own estimate that it is right, 0 to 1; may be empty.
        drafter: who proposed it, where several could have.
        padding: how many tokens more are to be decoded, whatever they are, because that width costs less.
    """

    tokens: tuple[int, ...] = ()
    probs: tuple[TokenDistribution, ...] | None = None
    confidences: tuple[float, ...] = ()
    drafter: str = ""
    padding: int = 0


NO_DRAFT = Draft()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the verifier makes of a draft.

    Attributes:
        num_accepted: how many draft tokens were accepted, a prefix of the draft.
        tokens: the accepted tokens and one more: the recovered token after a rejection, the bonus token
            when the whole draft was accepted.
    """

    num_accepted: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen from the target's logits; the same for target and draft model.

    Processors apply in the order of the fields: logit bias, penalties, temperature, top-k, top-p, min-p.

    Attributes:
        logit_bias: token id -> value added to its logit; -inf bans the token.
        repeat_penalty: logits of tokens seen in the window are divided (if positive) or multiplied (if
            negative) by it; 1 is off (CTRL, Keskar et al. 1909.05858, section 4.1).
        presence_penalty, frequency_penalty: subtracted once, and once per occurrence, in the window.
        penalty_window_tokens: how many of the last tokens the penalties see; 0 is all.
        temperature: 0 is greedy.
        top_k: keep the k most probable tokens; 0 is off.
        top_p: keep the smallest set of tokens whose mass reaches p; 1 is off.
        min_p: keep tokens at least this fraction as probable as the most probable one; 0 is off.
        seed: of this request's random generator.
    """

    logit_bias: tuple[tuple[int, float], ...] = ()
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_window_tokens: int = 64
    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    seed: int = 0

    @property
    def greedy(self) -> bool:
        """Whether the most probable token is always taken."""
        return self.temperature == 0


@dataclass(frozen=True, slots=True)
class RequestParams:
    """What one request asks for beside its prompt.

    Attributes:
        sampling: how tokens are chosen.
        verifier: None for the default: greedy at temperature 0, otherwise rejection.
        max_tokens: the most tokens of the reply; None for as many as the context holds.
        stop: the reply ends before the first of these strings.
    """

    sampling: SamplingParams = SamplingParams()
    verifier: VerifierName | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of the loop: one target decode and what came of it.

    A stop inside the step trims the record as it trims the text: drafted tokens after the stop are not
    counted, since nobody judged them.

    Attributes:
        tokens: the tokens committed by this step.
        num_draft_tokens, num_accepted_tokens: of this step.
        drafter: which drafter proposed; "none" for a plain step.
        width: tokens in the target decode: draft length + 1, and padding; 0 of the first step, whose logits
            come from the prompt, and of an interrupted one.
        draft_seconds, verify_seconds, sample_seconds: proposing; the target decode; everything that
            chooses tokens from its logits.
        finish_reason: set on the last step only.
    """

    tokens: tuple[int, ...]
    num_draft_tokens: int
    num_accepted_tokens: int
    drafter: str
    width: int
    draft_seconds: float
    verify_seconds: float
    sample_seconds: float
    finish_reason: FinishReason | None = None


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """Whether this run speculates, and why; the `plan` object of `--json`.

    Attributes:
        speculation: whether drafts are proposed.
        reason: a reason code.
        explanation: one sentence for people.
        context_tokens: size of the target's context.
        needed_bytes, headroom_bytes: memory price of the models, and what the machine has; None when not
            planned.
        draft_length: the longest draft that may be proposed.
        plain_tokens_per_second: speed of plain decoding behind the prompt, by what was measured so far.
        predicted_tokens_per_second: speed to expect for this kind of text; both None when not measured.
    """

    speculation: bool
    reason: ReasonCode
    explanation: str
    context_tokens: int
    draft_length: int
    needed_bytes: int | None = None
    headroom_bytes: int | None = None
    plain_tokens_per_second: float | None = None
    predicted_tokens_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class GenerationStats:
    """Figures of one reply; the `stats` object of `--json`.

    `tokens_per_second` counts the tokens after the first step over the time after the first step
    (`decode_seconds`); `ttft_seconds` is from the start of the request to the end of the first step.
    `prefilled_tokens` are the prompt tokens that this request decoded; the others were in the KV cache.
    `text_kind` is what the router took the text for; `width_counts` how many decodes had each width.
    `speedup` is the estimate of the gain over plain decoding, by what a plain step costs at the same time; it
    leaves out the prompt.
    """

    prompt_tokens: int = 0
    reused_prompt_tokens: int = 0
    prefilled_tokens: int = 0
    completion_tokens: int = 0
    ttft_seconds: float = 0.0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    tokens_per_second: float | None = None
    num_steps: int = 0
    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    acceptance_rate: float | None = None
    mean_acceptance_length: float | None = None
    accepted_per_position: tuple[int, ...] = ()
    drafted_per_position: tuple[int, ...] = ()
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    sample_seconds: float = 0.0
    peak_rss_bytes: int = 0
    rss_anon_bytes: int = 0
    rss_file_bytes: int = 0
    major_faults: int = 0
    text_kind: str | None = None
    speedup: float | None = None
    width_counts: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer with everything known about it; what `homespec run --json` prints."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    target: str
    drafter: str
    verifier: VerifierName
    seed: int
    stats: GenerationStats
    plan: PlanSummary
