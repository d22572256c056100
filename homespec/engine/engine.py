"""An opened target with its drafters, ready to answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType

from homespec.calibration.measure import Progress
from homespec.contracts import Drafter, LengthPolicy
from homespec.drafting.chain import ChainDrafter
from homespec.drafting.control import Controller
from homespec.drafting.draft_model import DraftModelDrafter
from homespec.drafting.length import FixedLength
from homespec.drafting.none import NoDrafter
from homespec.drafting.prefix import rewind
from homespec.drafting.suffix import SuffixDrafter, SuffixIndex
from homespec.engine.calibrating import ensure_calibrated, leave_out_hopeless_draft
from homespec.engine.control import Control
from homespec.engine.corpus import index_files
from homespec.engine.generation import Generation
from homespec.engine.opening import OpenedModel, open_models
from homespec.engine.preparing import Preparation, prepare
from homespec.engine.routing import Routing
from homespec.engine.session import Session
from homespec.engine.settings import DrafterName, EngineSettings, FixedDraft
from homespec.engine.truth import compare_with_plan
from homespec.errors import ConfigError, ContextOverflowError, DecodeAbortedError
from homespec.records import FloatArray, Message, PlanSummary, RequestParams
from homespec.runtime.binding import AbortFlag
from homespec.runtime.vocabulary import Vocabulary
from homespec.sampling import Sampling, make_sampling
from homespec.telemetry.process import read_process_memory

# What a reply without a limit is taken to be long.
_USUAL_REPLY_TOKENS = 256


class Engine:
    """Opens the models once and answers any number of requests, one at a time.

    Example:
        with Engine("smollm2-135m-instruct") as engine:
            print(engine.session().reply("Why is the sky blue?").text)
    """

    def __init__(
        self,
        target: str | EngineSettings | Preparation,
        *,
        progress: Progress = lambda share: None,
        abort: AbortFlag | None = None,
        **settings: object,
    ) -> None:
        """Opens the models, and measures the machine if they were never used before (some seconds).

        Args:
            target: name or path of the target, or all settings at once, or what was made of them.
            progress: told the share of the measurement that is done.
            abort: stops decodes of all models from when it is set until it is cleared.
            **settings: fields of `EngineSettings`.

        Raises:
            HomespecError: see `preparing.prepare` and `opening.open_models`.
        """
        if isinstance(target, str):
            target = EngineSettings(target, **settings)  # type: ignore[arg-type]
        if isinstance(target, EngineSettings):
            target = leave_out_hopeless_draft(prepare(target))
        self.preparation = target
        self.settings = target.settings
        self.abort = abort or AbortFlag()
        self._control: Control | None = None
        before = read_process_memory()
        self._opened = open_models(target, self.abort)
        compare_with_plan(target, before, read_process_memory())
        try:
            self._control = self._make_control(progress)
            self._corpus = self._index_corpus()
        except BaseException:
            self.close()
            raise

    def _make_control(self, progress: Progress) -> Control | None:
        """Calibrates if need be; None where drafts have a fixed length, or there are none."""
        settings = self.settings
        if not self.plan.speculation or settings.draft_length is not None:
            return None
        calibrations = ensure_calibrated(self.preparation, self._opened, progress)
        if calibrations is None:
            why = "This machine has not been measured with this model; run `homespec calibrate`."
            self._opened.plan = self.preparation.without_speculation("not_calibrated", why)
            return None
        control = Control(
            calibrations, self.context_tokens, pinned=settings.pin_control, strict=settings.strict
        )
        if control.longest_draft == 0:
            why = "no decode of several tokens was seen to give plain decoding's logits; --kv q8_0 may help."
            self._opened.plan = self.preparation.without_speculation("off_by_user", f"--strict: {why}")
            return None
        return control

    def _index_corpus(self) -> SuffixIndex | None:
        """The index that the drafters of all requests share; None where nobody would ask it."""
        if not (self.preparation.corpus.paths and self._opened.uses_ngram and self.plan.speculation):
            return None

        def tokenize(text: str) -> list[int]:
            if self.abort.is_set:
                raise DecodeAbortedError("Indexing the corpus was stopped.")
            return self.vocabulary.tokenize(text)

        return index_files(self.preparation.corpus, tokenize)

    @property
    def plan(self) -> PlanSummary:
        """Whether replies are speculated for, and why."""
        return self._opened.plan

    @property
    def target_name(self) -> str:
        """The target's name in the catalogue, or its file's."""
        return self._opened.target.name

    @property
    def drafters(self) -> tuple[DrafterName, ...]:
        """Who may draft, in the order in which they are asked; nobody where speculation is off."""
        if not self.plan.speculation:
            return ()
        ngram: tuple[DrafterName, ...] = ("ngram",) if self._opened.uses_ngram else ()
        return ngram if self._opened.draft is None else (*ngram, "draft-model")

    @property
    def opened_models(self) -> dict[str, OpenedModel]:
        """The models that are open now: `target`, and `draft` where there is one."""
        draft = self._opened.draft
        return {"target": self._opened.target} | ({} if draft is None else {"draft": draft})

    @property
    def vocabulary(self) -> Vocabulary:
        """The target's tokenizer."""
        return self._opened.target.model.vocabulary

    @property
    def context_tokens(self) -> int:
        """What the target's context holds."""
        return self._opened.target.context.context_tokens

    def session(self, system: str | None = None) -> Session:
        """A new conversation."""
        return Session(self, system)

    def chat_tokens(self, messages: Sequence[Message]) -> list[int]:
        """The prompt for the next message of a conversation, through the model's chat template."""
        return self._opened.target.model.chat_template.tokens(messages)

    def generate(
        self,
        tokens: Sequence[int],
        params: RequestParams = RequestParams(),
        fixed: FixedDraft | None = None,
    ) -> Generation:
        """Starts a reply to a prompt; iterate over it to run it.

        Args:
            tokens: the whole prompt. What its beginning shares with the last request is not decoded again.
            params: of this request.
            fixed: how to draft, for measurements; None for the engine's own choice.

        Raises:
            ContextOverflowError: the prompt leaves no room for an answer.
            ConfigError: a parameter cannot be used, or the prompt is empty.
        """
        if not tokens:
            raise ConfigError("The prompt is empty.", hint="Give some text.")
        if len(tokens) >= self.context_tokens:
            raise ContextOverflowError(len(tokens), self.context_tokens)
        if params.max_tokens is not None and params.max_tokens < 1:
            raise ConfigError(f"--max-tokens is {params.max_tokens}; at least 1 is needed.")
        sampling = make_sampling(params.sampling, params.verifier, self.preparation.num_shared_tokens)
        drafter, lengths, routing = self._speculation(sampling, tokens, fixed)
        end = min(self.context_tokens, len(tokens) + (params.max_tokens or _USUAL_REPLY_TOKENS))
        return Generation(
            target=self._opened.target,
            tokens=list(tokens),
            params=params,
            drafter=drafter,
            sampling=sampling,
            lengths=lengths,
            routing=routing,
            plan=self._foretold(lengths, (len(tokens) + end) // 2, fixed),
            on_paging=self._drop_drafters,
        )

    def forget(self, *, keep_prompt: bool = False) -> None:
        """Empties the KV caches, so that the next request finds the models as if they had just been opened.

        Args:
            keep_prompt: leave the target's as it is.
        """
        if not keep_prompt:
            self._opened.target.context.truncate(0)
        if self._opened.draft is not None:
            self._opened.draft.context.truncate(0)

    def next_logits(self, tokens: Sequence[int]) -> FloatArray:
        """The target's logits after some tokens, the last one decoded alone as in plain decoding.

        Returns:
            Shape (vocab_size,), float32, a copy.
        """
        context = self._opened.target.context
        kept = rewind(context, tokens)
        if kept < len(tokens) - 1:
            context.decode(tokens[kept:-1], rows="none")
        logits: FloatArray = context.decode(tokens[-1:], rows="last")[0].copy()
        return logits

    def _speculation(
        self, sampling: Sampling, tokens: Sequence[int], fixed: FixedDraft | None
    ) -> tuple[Drafter, LengthPolicy, Routing | None]:
        """The drafter and the length policy of a request; under control they are one and the same."""
        if fixed is None and (self._control is None or not self.plan.speculation):
            fixed = FixedDraft(self.drafters, self.plan.draft_length, self.settings.min_confidence)
        if fixed is not None:
            drafters = [self._drafter(name, sampling) for name in fixed.drafters]
            lengths = FixedLength(fixed.length if drafters else 0, fixed.min_confidence)
            return _join(drafters), lengths, None
        assert self._control is not None
        drafters = [self._drafter(name, sampling) for name in self.drafters]
        sampled_drafts = sampling.name in ("rejection", "block")
        controller = self._control.controller(drafters, self.plan.draft_length, sampled_drafts=sampled_drafts)
        suffix = next((drafter for drafter in drafters if isinstance(drafter, SuffixDrafter)), None)
        routing = Routing(controller, suffix, self.vocabulary.text(tokens), sampled=sampling.name != "greedy")
        return controller, controller, routing

    def _drafter(self, name: DrafterName, sampling: Sampling) -> Drafter:
        if name == "ngram":
            return SuffixDrafter(self._corpus)
        if self._opened.draft is None:
            raise ConfigError("There is no draft model open.", hint="Name one: --draft NAME.")
        return DraftModelDrafter(self._opened.draft.context, sampling.picker, self.vocabulary.is_end)

    def _foretold(self, lengths: LengthPolicy, depth_tokens: int, fixed: FixedDraft | None) -> PlanSummary:
        """The plan of one request, with the speed to expect where that is measured."""
        if fixed is not None and not fixed.drafters:
            why = "Speculation was switched off."
            return replace(
                self.plan, speculation=False, reason="off_by_user", explanation=why, draft_length=0
            )
        if fixed is not None:
            return replace(self.plan, draft_length=fixed.length)
        if self._control is None or not isinstance(lengths, Controller):
            return self.plan
        plain, predicted = self._control.foretell(
            lengths.kind, depth_tokens, looks_up=self._opened.uses_ngram
        )
        return replace(self.plan, plain_tokens_per_second=plain, predicted_tokens_per_second=predicted)

    def _drop_drafters(self, why: str) -> None:
        """Gives the drafters' memory back: later replies are decoded plainly as well."""
        self._opened.close_draft()
        self._opened.uses_ngram = False
        self._corpus = None
        self._opened.plan = self.preparation.without_speculation("would_page", why)

    def close(self) -> None:
        """Frees the models; safe to call twice."""
        if self._control is not None:
            self._control.save()
        self._opened.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _join(drafters: Sequence[Drafter]) -> Drafter:
    if not drafters:
        return NoDrafter()
    return drafters[0] if len(drafters) == 1 else ChainDrafter(drafters)
