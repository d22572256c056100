"""Long conversations: their KV cache outlives the process, and a full context is cut exactly."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from homespec.engine.engine import Engine
from homespec.engine.keeping import keep_cache, resume_cache
from homespec.engine.room import choose_cut, context_use, reply_reserve
from homespec.engine.settings import EngineSettings
from homespec.engine.summarizing import start_summary, summary_text
from homespec.records import Message, RequestParams, SamplingParams
from homespec.sessions.events import AssistantTurn, ContextCut, UserTurn
from homespec.sessions.kv_files import KvFiles
from homespec.sessions.log import SessionLog, read
from tests.integration.conftest import SMOLLM2, ask_tokens, require

pytestmark = pytest.mark.model

GREEDY = RequestParams(SamplingParams(temperature=0), max_tokens=40)
QUESTIONS = ["What is a cat?", "And a dog? Name three breeds.", "Which of them is louder?"]


def converse(engine: Engine, log: SessionLog, text: str) -> AssistantTurn:
    log.append(UserTurn(text))
    reply = ask_tokens(engine, engine.chat_tokens(log.conversation.messages), GREEDY)
    log.append(turn := AssistantTurn.of(reply))
    return turn


LEAVER = """
import json
import sys
from pathlib import Path
from homespec.engine.engine import Engine
from homespec.engine.keeping import keep_cache
from homespec.sessions.kv_files import KvFiles
from homespec.sessions.log import SessionLog
from tests.integration.test_resuming import QUESTIONS, converse
directory, model = Path(sys.argv[1]), sys.argv[2]
with Engine(model, draft="ngram", draft_length=4, context_tokens=1024) as engine:
    with SessionLog.create(model, "Answer briefly.", directory=directory) as log:
        for question in QUESTIONS[:2]:
            converse(engine, log, question)
        assert keep_cache(engine, KvFiles(directory=directory), log.conversation.id) is None
        print(log.conversation.id, flush=True)
        turn = converse(engine, log, QUESTIONS[2])
        print(json.dumps(turn.token_ids))
"""


def test_a_conversation_resumed_in_another_process_is_the_same(tmp_path: Path) -> None:
    require(SMOLLM2)
    command = [sys.executable, "-c", LEAVER, str(tmp_path), SMOLLM2]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    name, expected = done.stdout.splitlines()
    conversation = read(tmp_path / f"{name}.jsonl").conversation
    unanswered = list(conversation.prompt_again())
    # Another size of the context does not matter.
    with Engine(SMOLLM2, draft="ngram", draft_length=4, context_tokens=2048) as engine:
        resumed = resume_cache(engine, KvFiles(directory=tmp_path), name)
        assert resumed.notices == ()
        reply = ask_tokens(engine, engine.chat_tokens(unanswered), GREEDY)
        assert list(reply.token_ids) == json.loads(expected)
        assert reply.stats.reused_prompt_tokens == resumed.num_tokens
        # Nothing is decoded but what ends the last reply, the new question, and the template around it.
        new = len(engine.chat_tokens([Message("user", QUESTIONS[2])]))
        assert reply.stats.prefilled_tokens <= new + 8


def test_a_sliding_window_is_kept_as_well(tmp_path: Path) -> None:
    require("gemma3-270m")
    files = KvFiles(directory=tmp_path)
    # One thread: several share the work by the place of the cells, which are packed when they are loaded, and
    # so round differently.
    settings = EngineSettings(
        "gemma3-270m", "ngram", draft_length=4, context_tokens=1536, num_threads=1, num_batch_threads=1
    )
    with Engine(settings) as engine:
        # Longer than the window of 512 tokens: the older ones are gone from most layers.
        tokens = engine.vocabulary.tokenize("Apples, pears and plums are fruit. " * 110, add_special=True)
        reply = ask_tokens(engine, tokens, GREEDY)
        assert keep_cache(engine, files, "s") is None
        tokens += [*reply.token_ids, *engine.vocabulary.tokenize(" So are")]
        expected = ask_tokens(engine, tokens, GREEDY)
    with Engine(settings) as engine:
        resumed = resume_cache(engine, files, "s")
        assert resumed.num_tokens > 700
        found = ask_tokens(engine, tokens, GREEDY)
        assert found.token_ids == expected.token_ids
        assert found.stats.reused_prompt_tokens == resumed.num_tokens


def test_a_cache_damaged_anywhere_is_ignored(plain: Engine, tmp_path: Path) -> None:
    files = KvFiles(directory=tmp_path)
    tokens = plain.chat_tokens([Message("user", QUESTIONS[0])])
    expected = ask_tokens(plain, tokens, GREEDY)
    assert keep_cache(plain, files, "s") is None
    # What is in memory stays there, whatever the file holds; here it must not hide what the file would do.
    plain.forget()
    path, chance = files.path("s"), random.Random(1)
    content = path.read_bytes()
    for _ in range(10):
        damaged = bytearray(content)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        resumed = resume_cache(plain, files, "s")
        assert resumed.num_tokens == 0
        assert len(resumed.notices) == 1
    reply = ask_tokens(plain, tokens, GREEDY)
    assert reply.token_ids == expected.token_ids
    assert reply.stats.prefilled_tokens == reply.stats.prompt_tokens == len(tokens)


def test_the_figures_show_what_was_prefilled(ngram: Engine) -> None:
    session = ngram.session(system="Answer in one sentence.")
    ngram.forget()
    for question in QUESTIONS:
        stats = session.reply(question, GREEDY).stats
        assert stats.reused_prompt_tokens + stats.prefilled_tokens == stats.prompt_tokens
        if session.messages[1].content != question:
            assert stats.prefilled_tokens < 40 < stats.reused_prompt_tokens


def test_an_interrupted_prefill_counts_what_it_read(plain: Engine) -> None:
    plain.forget()
    generation = plain.generate([1] * 1400, GREEDY)
    plain.abort.set()
    assert list(generation) == []
    plain.abort.clear()
    assert generation.reply.stats.prefilled_tokens == 0


@pytest.mark.parametrize("policy", ["drop", "summarize"])
def test_thirty_turns_go_on_through_a_small_context(policy: str, tmp_path: Path) -> None:
    require(SMOLLM2)
    system = "You are a helpful guide. Answer in one or two sentences. " * 3
    cuts, prefilled = [], []
    with (
        Engine(SMOLLM2, draft="ngram", draft_length=4, context_tokens=768) as engine,
        SessionLog.create(SMOLLM2, system, directory=tmp_path) as log,
    ):
        reserve = reply_reserve(engine.context_tokens, GREEDY.max_tokens)

        def count(messages: object) -> int:
            return len(engine.chat_tokens(messages))  # type: ignore[arg-type]

        for number in range(30):
            text = f"Tell me one thing about the number {number}."
            use = context_use(log.conversation.prompt(text), count, engine.context_tokens, reserve)
            if not use.fits:
                cut = choose_cut(log.conversation, text, count, engine.context_tokens, reserve, policy)  # type: ignore[arg-type]
                summary = log.conversation.summary
                if policy == "summarize":
                    generation = start_summary(engine, log.conversation, cut)
                    assert generation is not None
                    list(generation)
                    summary = summary_text(generation)
                    # Nearly all of the request was in the cache.
                    assert generation.reply.stats.prefilled_tokens < 100
                log.append(ContextCut(cut.num_turns, summary))
                assert count(log.conversation.prompt(text)) <= cut.use.prompt_tokens
                cuts.append(number)
            turn = converse(engine, log, text)
            assert turn.finish_reason in ("stop", "length")
            reused, read_anew = turn.stats["reused_prompt_tokens"], turn.stats["prefilled_tokens"]
            assert isinstance(reused, int)
            assert isinstance(read_anew, int)
            prefilled.append(read_anew)
            if number:  # the system message is never read again
                assert reused >= count([Message("system", system)]) - 8
        assert read(log.path).conversation == log.conversation
    assert len(cuts) >= 2
    assert min(after - before for before, after in itertools.pairwise(cuts)) > 1
    others = [tokens for number, tokens in enumerate(prefilled) if number and number not in cuts]
    assert max(others) < 60
