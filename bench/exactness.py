"""Does speculation change what a model says? Greedy texts with and without it, prompt by prompt.

    .venv/bin/python bench/exactness.py --model TARGET --draft DRAFT --prompts FILE.jsonl [--num-prompts 10]

FILE has one {"prompt": ...} a line. Where two texts differ, the gap between the two best logits at the first
difference (of the plain decode) tells whether it is a near tie: llama.cpp's arithmetic depends on how many
tokens are decoded at once, and a gap below that noise may fall either way.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from homespec.benchmark.exactness import first_difference, top_gap
from homespec.benchmark.scenarios import read_prompts
from homespec.engine.engine import Engine
from homespec.engine.settings import EngineSettings
from homespec.records import Message, Reply, RequestParams, SamplingParams


def main() -> None:
    """Prints a line per prompt and a summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--draft", required=True)
    parser.add_argument("--draft-length", type=int, default=5)
    parser.add_argument("--min-confidence", type=float, default=EngineSettings("").min_confidence)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--num-prompts", type=int, default=10)
    parser.add_argument("--max-tokens", type=int, default=96)
    options = parser.parse_args()

    prompts = read_prompts(options.prompts).prompts[: options.num_prompts]
    params = RequestParams(SamplingParams(temperature=0), max_tokens=options.max_tokens)
    drafted = EngineSettings(
        options.model, options.draft, draft_length=options.draft_length, min_confidence=options.min_confidence
    )
    with Engine(options.model, draft="off") as plain, Engine(drafted) as speculative:
        replies = []
        for number, prompt in enumerate(prompts, start=1):
            tokens = plain.chat_tokens([Message("user", prompt)])
            expected, found = answer(plain, tokens, params), answer(speculative, tokens, params)
            replies.append(found)
            sys.stdout.write(f"{number:3}  {describe(plain, tokens, expected, found)}\n")
            sys.stdout.flush()
    drafts = sum(reply.stats.num_drafts for reply in replies)
    accepted = sum(reply.stats.num_accepted_tokens for reply in replies)
    sys.stdout.write(f"mean acceptance length {1 + accepted / max(drafts, 1):.2f} over {drafts} drafts\n")


def answer(engine: Engine, tokens: list[int], params: RequestParams) -> Reply:
    """The whole reply."""
    generation = engine.generate(tokens, params)
    for _ in generation:
        pass
    return generation.reply


def describe(plain: Engine, prompt: list[int], expected: Reply, found: Reply) -> str:
    """One line on how the two replies compare."""
    stats = found.stats
    figures = f"acceptance length {stats.mean_acceptance_length or 1:.2f}, {stats.num_drafts} drafts"
    at = first_difference(expected.token_ids, found.token_ids)
    if at is None:
        return f"same {len(found.token_ids)} tokens; {figures}"
    gap = top_gap(plain, [*prompt, *expected.token_ids[:at]])
    return f"differs from token {at} on, where the best two logits are {gap:.3f} apart; {figures}"


if __name__ == "__main__":
    main()
