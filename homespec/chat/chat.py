"""The chat: reads a line, does what it says, until the user leaves."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from homespec.chat.attachments import expand
from homespec.chat.commands import find_command, is_command
from homespec.chat.figures import prompt_text, status_line, why_no_drafts
from homespec.chat.fullness import Fullness
from homespec.chat.parameters import NAMES, Parameters
from homespec.chat.reading import Reader, unquoted
from homespec.chat.replying import opens_thinking, show_reply
from homespec.chat.terminal import Terminal
from homespec.chat.tinting import Origins
from homespec.chat.writers import MarkdownWriter, PlainWriter, make_writer
from homespec.engine.engine import Engine
from homespec.engine.keeping import keep_cache, resume_cache
from homespec.engine.preparing import prepare
from homespec.engine.room import ContextUse, context_use, reply_reserve
from homespec.engine.settings import EngineSettings, FixedDraft
from homespec.errors import INTERRUPTED_EXIT_CODE, ConfigError, HomespecError
from homespec.records import Message, PlanSummary, Reply, RequestParams
from homespec.runtime.interrupt import Presses, abort_on_interrupt
from homespec.sessions.conversation import Conversation
from homespec.sessions.events import AssistantTurn, Event, UserTurn
from homespec.sessions.kv_files import KvFiles
from homespec.sessions.log import SessionLog

Drafting = Literal["auto", "on", "off"]
OpenEngine = Callable[[EngineSettings], Engine]

# What `/spec on` drafts in every step where the user gave no length.
_ALWAYS_DRAFT_LENGTH = 5


class Chat:
    """State of a running chat, which the commands change.

    Attributes:
        engine: answers.
        log: the conversation, on disk.
        terminal: where to.
        parameters: of the replies to come.
        drafting: what `/spec` says.
        tint: whether drafted text is tinted.
        show_thinking: whether thinking is shown.
        default: what the next prompt begins with.
        last_reply: of this process.
        told_reason: the last reason code that was explained.
        display_share: the part of its time that went into drawing.
        exit_code: set to leave.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        open_engine: OpenEngine,
        log: SessionLog,
        terminal: Terminal,
        parameters: Parameters,
        fullness: Fullness,
        kv_files: KvFiles | None,
    ) -> None:
        """Begins, or goes on with, a conversation.

        Args:
            engine: opened.
            open_engine: opens another one.
            log: of the conversation.
            terminal: see `terminal`.
            parameters: of replies.
            fullness: what to do when the context is full.
            kv_files: where KV caches are kept; None keeps none.
        """
        self.engine = engine
        self._open_engine = open_engine
        self.log = log
        self.terminal = terminal
        self.parameters = parameters
        self._fullness = fullness
        self._kv_files = kv_files
        self.drafting: Drafting = "auto"
        self.tint = False
        self.show_thinking = terminal.is_interactive
        self.default = ""
        self.last_reply: Reply | None = None
        self.display_share: float | None = None
        self.exit_code: int | None = None
        self._presses = Presses()
        self._used_tokens = 0
        self._num_regenerated = 0
        self.told_reason = "on"

    @property
    def conversation(self) -> Conversation:
        """What was said."""
        return self.log.conversation

    def run(self, reader: Reader) -> int:
        """Talks until the user leaves.

        Returns:
            The exit code: 0, 130 after Ctrl-C, 1 where a line from a pipe failed.
        """
        self._resume()
        failed = leaving = False
        while self.exit_code is None:
            prompt = prompt_text(self._used_tokens, self.engine.context_tokens, self.terminal.columns)
            default, self.default = self.default, ""
            try:
                line = reader.read(prompt, default)
            except EOFError:
                break
            except KeyboardInterrupt:
                if leaving or not self.terminal.is_interactive:
                    self.exit_code = INTERRUPTED_EXIT_CODE
                else:
                    self.terminal.quiet("Ctrl-C once more leaves, Ctrl-D as well.")
                leaving = True
                continue
            with abort_on_interrupt(self.engine.abort, patience=2) as self._presses:
                failed |= not self._handle(line)
            # A reply was stopped: the next Ctrl-C leaves.
            leaving = bool(self._presses.signals)
            if self._presses.to_leave or (leaving and not self.terminal.is_interactive):
                self.exit_code = INTERRUPTED_EXIT_CODE
        return self.exit_code or int(failed and not self.terminal.is_interactive)

    def _handle(self, line: str) -> bool:
        """Does what a line says; False if it could not be done."""
        try:
            if is_command(line):
                command, argument = find_command(line)
                command.run(self, argument)
            elif line.strip():
                self.ask(line)
        except HomespecError as error:
            self.terminal.error(error)
            return False
        return True

    def ask(self, line: str) -> None:
        """Sends a message and shows the reply.

        Raises:
            HomespecError: nothing was sent; the line is offered again.
        """
        try:
            expanded = expand(unquoted(line))
            for note in expanded.notes:
                self.terminal.quiet(note)
            typed = unquoted(line)
            if not self._fullness.make_room(self, self.conversation, expanded.text):
                self.default = line
                return
        except HomespecError:
            self.default = line
            raise
        self._num_regenerated = 0
        self.record(UserTurn(expanded.text, None if expanded.text == typed else typed))
        self._answer(self.conversation.messages)

    def regenerate(self) -> None:
        """Answers the last message anew.

        Raises:
            ConfigError: there is none.
        """
        conversation = self.conversation
        if not conversation.turns:
            raise ConfigError("There is no message to answer.", hint="Ask something first.")
        before = dataclasses.replace(conversation, turns=conversation.turns[:-1])
        if self._fullness.make_room(self, before, conversation.turns[-1].user.text):
            self._num_regenerated += 1
            self._answer(self.conversation.prompt_again())

    def _answer(self, messages: Sequence[Message]) -> None:
        engine = self.engine
        tokens = engine.chat_tokens(messages)
        generation = engine.generate(tokens, self._request(), self._fixed_draft())
        writer = self.make_writer()
        origins = Origins(engine.vocabulary.token_bytes) if self.tint else None
        in_thinking = opens_thinking([engine.vocabulary.token_text(token) for token in tokens[-4:]])
        self.terminal.hold_notes()
        try:
            seconds = show_reply(generation, writer, in_thinking=in_thinking, origins=origins)
            self.display_share = writer.pacer.spent_seconds / seconds
        finally:
            self.terminal.release_notes()
            self._conclude(generation.reply)

    def _conclude(self, reply: Reply) -> None:
        """Records a reply, whole or in part, and shows its figures."""
        if not reply.token_ids:
            self.terminal.note("Stopped before the reply began. /regen asks again, /undo takes it back.")
            return
        self.last_reply = reply
        self.record(AssistantTurn.of(reply, regenerated=self.conversation.is_answered))
        self._used_tokens = reply.stats.prompt_tokens + reply.stats.completion_tokens
        self.terminal.quiet(status_line(reply, self.terminal.width))
        self._explain(reply.plan)
        self._fullness.warn(self, reply)
        if self.terminal.is_interactive:
            self.terminal.note("")

    def _explain(self, plan: PlanSummary) -> None:
        """Says why there are no drafts, where that is news."""
        if plan.reason != self.told_reason and (why := why_no_drafts(plan)):
            self.terminal.quiet(why)
        self.told_reason = plan.reason

    def make_writer(self) -> PlainWriter | MarkdownWriter:
        """For the next reply."""
        return make_writer(self.terminal, show_thinking=self.show_thinking, tint=self.tint)

    def _request(self) -> RequestParams:
        request, seed = self.parameters.request, self.parameters.seed
        # With a seed of the user's, another reply to the same message still has to be another one.
        seed = secrets.randbits(32) if seed is None else seed + self._num_regenerated
        return dataclasses.replace(request, sampling=dataclasses.replace(request.sampling, seed=seed))

    def _fixed_draft(self) -> FixedDraft | None:
        if self.drafting == "auto" or not self.engine.plan.speculation:
            return None
        if self.drafting == "off":
            return FixedDraft()
        settings = self.engine.settings
        return FixedDraft(
            self.engine.drafters, settings.draft_length or _ALWAYS_DRAFT_LENGTH, settings.min_confidence
        )

    def record(self, event: Event) -> None:
        """Adds something to the conversation, and tells if the disk refuses it."""
        if trouble := self.log.append(event):
            self.terminal.warn(trouble)
        if not isinstance(event, (UserTurn, AssistantTurn)):
            self._used_tokens = self.count(self.conversation.messages)

    def count(self, messages: Sequence[Message]) -> int:
        """Tokens of a prompt; 0 for no messages."""
        return len(self.engine.chat_tokens(messages)) if messages else 0

    def context_use(self) -> ContextUse:
        """How full the context is now."""
        return context_use(self.conversation.messages, self.count, self.engine.context_tokens, self.reserve)

    @property
    def reserve(self) -> int:
        """Tokens to keep free for a reply."""
        return reply_reserve(self.engine.context_tokens, self.parameters.request.max_tokens)

    def reopen(self, settings: EngineSettings) -> None:
        """Goes on with other models, or another drafter.

        Raises:
            HomespecError: the old ones go on.
        """
        prepare(settings)  # What cannot work is to be known before anything is closed.
        before = self.engine.settings
        self.engine.close()
        try:
            self.engine = self._open_engine(settings)
        except HomespecError:
            self.engine.abort.clear()
            # Should the old ones not open any more either, nothing is left to talk with, or to keep.
            kv_files, self._kv_files, self.exit_code = self._kv_files, None, 1
            self.engine = self._open_engine(before)
            self._kv_files, self.exit_code = kv_files, None
            raise
        self._used_tokens = self.count(self.conversation.messages)

    def load(self, path: Path) -> None:
        """Goes on with another conversation.

        Raises:
            HomespecError: this one goes on.
        """
        if path == self.log.path:
            self.terminal.note("That is this conversation.")
            return
        log = SessionLog.open(path)
        self.keep()
        self.log.close()
        self.log = log
        self.last_reply = None
        self._resume()

    def _resume(self) -> None:
        """Takes up the conversation: its settings, its KV cache; tells where it stands."""
        for notice in self.log.notices:
            self.terminal.warn(notice)
        conversation = self.conversation
        for name, value in conversation.settings.items():
            if name in NAMES:
                self.parameters = self.parameters.changed(name, str(value))
        if conversation.turns and self._kv_files is not None:
            resumed = resume_cache(self.engine, self._kv_files, conversation.id)
            for notice in resumed.notices:
                self.terminal.warn(notice)
        self._used_tokens = self.count(conversation.messages)
        self._greet()

    def _greet(self) -> None:
        if not self.terminal.is_interactive:
            return
        engine, conversation = self.engine, self.conversation
        drafting = " and ".join(engine.drafters)
        self.terminal.quiet(
            f"{engine.target_name}" + (f", drafts from {drafting}" if drafting else "") + ". /help"
        )
        self._explain(engine.plan)
        if not conversation.turns:
            return
        number = len(conversation.turns)
        self.terminal.note(f"Going on with {conversation.title!r}: {number} turn{'s' * (number != 1)}.")
        if conversation.model != engine.settings.target:
            self.terminal.quiet(
                f"It was with {conversation.model}; /model {conversation.model} goes back to it."
            )
        if not conversation.is_answered:
            self.terminal.note("The last message has no reply: /regen asks for it, /undo takes it back.")

    def keep(self) -> None:
        """Keeps the KV cache on disk, where that is wanted."""
        if self._kv_files is None or not self.conversation.turns:
            return
        if trouble := keep_cache(self.engine, self._kv_files, self.conversation.id):
            self.terminal.warn(trouble)

    def close(self) -> None:
        """Keeps what is to be kept, and frees models and the conversation's file."""
        self.keep()
        self.log.close()
        self.engine.close()
