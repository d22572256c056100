"""The model's own summary of turns that leave the context."""

from __future__ import annotations

from dataclasses import replace

from homespec.engine.engine import Engine
from homespec.engine.generation import Generation
from homespec.engine.room import Cut, summary_tokens
from homespec.records import RequestParams, SamplingParams
from homespec.sessions.conversation import SUMMARY_QUESTION, Conversation
from homespec.sessions.thinking import without_thinking


def start_summary(engine: Engine, conversation: Conversation, cut: Cut) -> Generation | None:
    """Asks the model to summarize the turns that are going to be left out.

    The prompt is the beginning of the conversation and one question: nearly all of it is in the KV cache.

    Args:
        engine: that the conversation runs on.
        conversation: before the cut.
        cut: of `choose_cut`.

    Returns:
        The reply in the making: iterate over it, then see `summary_text`. None where it has no room.
    """
    leaving = replace(conversation, turns=conversation.turns[: cut.num_turns])
    tokens = engine.chat_tokens(leaving.prompt(SUMMARY_QUESTION))
    limit = summary_tokens(engine.context_tokens)
    if len(tokens) + limit > engine.context_tokens:
        return None
    # Greedy, so that the same conversation goes on in the same way.
    params = RequestParams(SamplingParams(temperature=0), max_tokens=limit)
    return engine.generate(tokens, params)


def summary_text(generation: Generation) -> str | None:
    """What to put in place of the turns; None where the model gave nothing, or was interrupted."""
    reply = generation.reply
    text = without_thinking(reply.text).strip()
    return text if text and reply.finish_reason != "interrupted" else None
