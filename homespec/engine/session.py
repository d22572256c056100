"""A conversation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from homespec.engine.generation import Generation
from homespec.records import Message, Reply, RequestParams

if TYPE_CHECKING:
    from homespec.engine.engine import Engine


class Session:
    """Messages so far, and the replies to come. Its prefix in the KV cache is reused from turn to turn."""

    def __init__(self, engine: Engine, system: str | None = None) -> None:
        self._engine = engine
        self.messages: list[Message] = [Message("system", system)] if system else []
        self.last_reply: Reply | None = None

    def stream(self, prompt: str, params: RequestParams = RequestParams()) -> Iterator[str]:
        """Asks, and yields the answer as it is generated; `last_reply` describes it afterwards.

        The turn joins the conversation when the iteration ends or is closed, with whatever text there is.

        Raises:
            HomespecError: see `Engine.generate`; the conversation is then as before.
        """
        self._engine.abort.clear()  # What stopped an earlier answer does not stop this one.
        question = Message("user", prompt)
        generation = self._engine.generate(self._engine.chat_tokens([*self.messages, question]), params)
        try:
            yield from generation
        finally:
            self._conclude(question, generation)

    def reply(self, prompt: str, params: RequestParams = RequestParams()) -> Reply:
        """Asks, and returns the whole answer."""
        for _ in (stream := self.stream(prompt, params)):
            pass
        del stream
        assert self.last_reply is not None
        return self.last_reply

    def _conclude(self, question: Message, generation: Generation) -> None:
        self.last_reply = generation.reply
        self.messages += [question, Message("assistant", self.last_reply.text, self.last_reply.token_ids)]
