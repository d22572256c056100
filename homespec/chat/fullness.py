"""What happens when the context is full: never without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from homespec.chat.replying import show_reply
from homespec.chat.terminal import harmless
from homespec.engine.room import Cut, choose_cut, context_use
from homespec.engine.summarizing import start_summary, summary_text
from homespec.records import Reply
from homespec.sessions.conversation import Conversation
from homespec.sessions.events import ContextCut

if TYPE_CHECKING:
    from homespec.chat.chat import Chat

WhenFull = Literal["ask", "drop", "summarize", "stop"]

_QUESTION = "[d]rop the oldest turns, [s]ummarize them, or [n]either? "


class Fullness:
    """Warns before the context is full, and makes room when it is."""

    def __init__(self, when_full: WhenFull) -> None:
        self._when_full = when_full
        self._warned = False

    def make_room(self, chat: Chat, conversation: Conversation, text: str) -> bool:
        """Makes sure that a message and its reply fit.

        Args:
            chat: whose conversation is cut where need be.
            conversation: before the message.
            text: of the message.

        Returns:
            False where nothing is to be sent.

        Raises:
            ContextOverflowError: the message does not fit even alone.
        """
        size = chat.engine.context_tokens
        use = context_use(conversation.prompt(text), chat.count, size, chat.reserve)
        if use.fits:
            return True
        # Whether anything helps is found before the user is asked.
        choose_cut(conversation, text, chat.count, size, chat.reserve)
        chat.terminal.warn(
            f"The context is full: it holds {size:,} tokens; the prompt would have {use.prompt_tokens:,}, "
            f"and the reply needs about {use.reserve_tokens:,}."
        )
        choice = self._choose(chat)
        if choice == "stop":
            chat.terminal.note(
                "Nothing was sent. /clear starts anew, /undo takes turns back, /export keeps a copy."
            )
            if self._when_full == "stop" and not chat.terminal.is_interactive:
                chat.exit_code = 1
            return False
        self._cut(chat, conversation, text, summarize=choice == "summarize")
        return True

    def _choose(self, chat: Chat) -> WhenFull:
        if self._when_full != "ask":
            return self._when_full
        answer = chat.terminal.ask(_QUESTION).strip().lower()
        choices: dict[str, WhenFull] = {"d": "drop", "s": "summarize"}
        return choices.get(answer[:1], "stop")

    def _cut(self, chat: Chat, conversation: Conversation, text: str, *, summarize: bool) -> None:
        size, summary = chat.engine.context_tokens, conversation.summary
        cut = choose_cut(conversation, text, chat.count, size, chat.reserve)
        if summarize:
            with_summary = choose_cut(conversation, text, chat.count, size, chat.reserve, "summarize")
            made = self._summarize(chat, conversation, with_summary)
            if made is None:
                chat.terminal.warn("No summary could be made: the turns are left out without one.")
            else:
                cut, summary = with_summary, made
        number = cut.num_turns - conversation.num_cut_turns
        chat.record(ContextCut(cut.num_turns, summary))
        self._warned = False
        how = "summarized" if cut.policy == "summarize" else "left out"
        which = "The oldest turn is" if number == 1 else f"The {number} oldest turns are"
        chat.terminal.note(
            f"{which} {how}: the prompt has {chat.count(chat.conversation.prompt(text)):,} tokens now. What "
            "follows the system message is read once more."
        )

    def _summarize(self, chat: Chat, conversation: Conversation, cut: Cut) -> str | None:
        generation = start_summary(chat.engine, conversation, cut)
        if generation is None:
            return None
        chat.terminal.quiet("Summary:")
        if chat.terminal.can_redraw:
            show_reply(generation, chat.make_writer())
            return summary_text(generation)
        # It is no reply: where replies go to a pipe, it must not go there.
        for _ in generation:
            pass
        summary = summary_text(generation)
        chat.terminal.quiet(harmless(summary or ""))
        return summary

    def warn(self, chat: Chat, reply: Reply) -> None:
        """Says after a reply, once, that the next one may not fit."""
        size = chat.engine.context_tokens
        if reply.finish_reason == "context":
            chat.terminal.warn(
                f"The reply ends here because the context is full ({size:,} tokens). Room is made before the "
                "next message; ask to go on."
            )
            return
        use = chat.context_use()
        if use.nearly_full and not self._warned:
            self._warned = True
            then = {
                "ask": "you will be asked what to do",
                "drop": "the oldest turns are left out",
                "summarize": "the oldest turns are summarized",
                "stop": "no more is sent",
            }[self._when_full]
            chat.terminal.warn(
                f"The context fills up: {use.prompt_tokens:,} of {size:,} tokens ({use.share:.0%}), "
                f"{max(0, use.free_tokens):,} free beside a reply. When it is full, {then}."
            )
