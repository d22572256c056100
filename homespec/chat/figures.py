"""Figures of replies and of the context, as text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from homespec.records import GenerationStats, PlanSummary, Reply
from homespec.units import format_bytes, format_seconds


def status_line(reply: Reply, width: int) -> str:
    """The one line after a reply: how it was drafted or why not, speed, context, how it ended.

    Where the line would be longer than `width`, what matters least is left out.
    """
    stats = reply.stats
    used, size = stats.prompt_tokens + stats.completion_tokens, reply.plan.context_tokens
    parts = [
        (0, _drafting(reply)),
        (1, _speed(stats)),
        (2, f"ctx {short_count(used)}/{short_count(size)}"),
    ]
    if stats.num_steps:
        parts.append((4, f"first token {format_seconds(stats.ttft_seconds)}"))
    if ending := _ENDINGS.get(reply.finish_reason):
        parts.insert(0, (0, ending))
    shown = [part for part in parts if part[1]]
    # How the reply ended, and why nothing is drafted, always stay, so that nobody has to guess.
    while len(line := " | ".join(text for _, text in shown)) > width and (least := max(shown))[0]:
        shown.remove(least)
    return line


_ENDINGS = {"interrupted": "stopped", "length": "token limit", "context": "context full"}


def _drafting(reply: Reply) -> str:
    stats, plan = reply.stats, reply.plan
    if not plan.speculation:
        return f"no drafts: {plan.reason}"
    if not stats.num_drafts:
        return f"{reply.drafter}: nothing to draft"
    length = stats.num_draft_tokens / stats.num_drafts
    return f"{reply.drafter} x{length:.1f}, {stats.acceptance_rate:.0%} of {stats.num_draft_tokens} accepted"


def _speed(stats: GenerationStats) -> str:
    if stats.tokens_per_second is None:
        return ""
    gain = f", {stats.speedup:.2f}x plain" if stats.speedup else ""
    return f"{stats.tokens_per_second:.1f} tok/s{gain}"


def why_no_drafts(plan: PlanSummary) -> str:
    """A sentence for a plan without speculation; empty with it."""
    return "" if plan.speculation else f"No drafts ({plan.reason}): {plan.explanation}"


def short_count(number: int) -> str:
    """812, 4096, 32.8k, 131k."""
    if number < 10_000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 99_950 else f"{number / 1000:.0f}k"


def prompt_text(used_tokens: int, context_tokens: int, width: int) -> str:
    """The prompt with the context meter; shorter on narrow terminals."""
    used, size = short_count(used_tokens), short_count(context_tokens)
    if width < 30:
        return "> "
    share = "" if width < 60 else f" ({used_tokens / context_tokens:.0%})"
    return f"ctx {used}/{size}{share} > "


def stats_table(reply: Reply, display_share: float | None) -> list[tuple[str, str]]:
    """All that is known about a reply."""
    stats, plan = reply.stats, reply.plan
    tokens = f"{stats.prompt_tokens:,} ({stats.reused_prompt_tokens:,} reused)"
    rows = [
        ("prompt tokens", f"{tokens}, read in {format_seconds(stats.prefill_seconds)}"),
        ("reply tokens", f"{stats.completion_tokens:,} in {stats.num_steps:,} steps, {reply.finish_reason}"),
        ("first token", format_seconds(stats.ttft_seconds)),
        ("speed", _speed(stats) or "-"),
        ("drafter", reply.drafter if plan.speculation else why_no_drafts(plan)),
        ("verifier, seed", f"{reply.verifier}, {reply.seed}"),
    ]
    if stats.num_drafts:
        rows += [
            ("accepted", f"{stats.num_accepted_tokens:,} of {stats.num_draft_tokens:,} drafted tokens"),
            ("acceptance rate", f"{stats.acceptance_rate:.1%}"),
            ("per draft", f"{stats.mean_acceptance_length:.2f} tokens, {stats.num_drafts:,} drafts"),
            ("by position", _by_position(stats.accepted_per_position, stats.drafted_per_position)),
        ]
    if plan.plain_tokens_per_second:
        rows.append(("plain speed here", f"{plan.plain_tokens_per_second:.1f} tok/s, as measured"))
    spent = (stats.draft_seconds, stats.verify_seconds, stats.sample_seconds)
    rows += [
        ("drafting, target, choosing", ", ".join(map(format_seconds, spent))),
        ("kind of text", stats.text_kind or "-"),
        (
            "memory",
            f"{format_bytes(stats.rss_anon_bytes + stats.rss_file_bytes)}, {stats.major_faults:,} disk reads",
        ),
    ]
    if display_share is not None:
        rows.append(("display", f"{display_share:.1%} of the time"))
    return rows


def _by_position(accepted: Sequence[int], drafted: Sequence[int]) -> str:
    shares = [f"{a / d:.0%}" for a, d in zip_longest(accepted, drafted, fillvalue=0)]
    return " ".join(shares[:8]) + (" ..." if len(shares) > 8 else "")
