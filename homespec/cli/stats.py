"""The figures of a reply in one line."""

from __future__ import annotations

from homespec.records import Reply
from homespec.units import format_seconds


def stats_line(reply: Reply) -> str:
    """What was drafted and accepted (or why nothing was), speed, time to first token, context in use."""
    stats = reply.stats
    parts = [_speculation(reply)]
    if stats.tokens_per_second is not None:
        against = f", about {stats.speedup:.2f} times plain" if stats.speedup else ""
        parts.append(f"{stats.tokens_per_second:.1f} tokens/s{against}")
    if stats.num_steps:
        parts.append(f"first token {format_seconds(stats.ttft_seconds)}")
    used = stats.prompt_tokens + stats.completion_tokens
    parts.append(f"{stats.completion_tokens} tokens, context {used}/{reply.plan.context_tokens}")
    if stats.text_kind:
        parts.append(f"text: {stats.text_kind}")
    if reply.finish_reason != "stop":
        parts.append(
            {"length": "token limit", "context": "context full"}.get(reply.finish_reason, reply.finish_reason)
        )
    return " | ".join(parts)


def _speculation(reply: Reply) -> str:
    stats, plan = reply.stats, reply.plan
    if not plan.speculation:
        return f"spec: off ({plan.reason}: {plan.explanation.rstrip('.')})"
    if not stats.num_drafts:
        return f"spec: {reply.drafter}, nothing to draft"
    return (
        f"spec: {reply.drafter}, {stats.num_drafts} drafts, "
        f"{stats.num_accepted_tokens}/{stats.num_draft_tokens} accepted ({stats.acceptance_rate:.0%}), "
        f"{stats.mean_acceptance_length:.2f} tokens per draft"
    )
