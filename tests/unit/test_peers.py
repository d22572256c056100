"""The bench against other programs: workers, resuming, the table, and programs against stand-ins."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.peers import arms, environments, merge, prompts, run, schedule, table
from bench.peers.arms import Arm, Program
from bench.peers.pool import WorkerPool
from bench.peers.programs import completions, llama_cpp_python, llama_server, ollama_server
from bench.peers.programs.homespec_engine import HomespecEngine
from bench.peers.prompts import Prompt
from bench.peers.protocol import Answer, Opening, Request
from bench.peers.results import Key, Measurement, Results, Settings
from bench.peers.workers import Worker, WorkerError
from homespec.errors import ConfigError
from tests.support import fake_peer, fake_servers

OPENING = Opening("target.gguf", None, context_tokens=256, num_threads=1)
REQUEST = Request((1, 2, 3), "hello", max_tokens=8, temperature=0.0, seed=0)
SETTINGS = Settings(max_tokens=8, temperature=0.0, context_tokens=256, num_threads=1, draft=None)
PROGRAM = Program("fake", "fake")
ONE, OTHER, THIRD = (Arm(PROGRAM, name) for name in ("one", "other", "third"))
PROMPTS = [Prompt("suite", number, f"prompt {number}") for number in range(3)]
GIGABYTE = 1_000_000_000


def start_fake(arm: Arm) -> Worker:
    worker = Worker([sys.executable, "-m", "tests.support.fake_peer"])
    try:
        worker.open(replace(OPENING, settings=arm.settings))
    except WorkerError:
        worker.close()
        raise
    return worker


@pytest.fixture
def worker() -> Iterator[Worker]:
    found = start_fake(ONE)
    yield found
    found.close()


def make_pool(start: Callable[[Arm], Worker] = start_fake, headroom: int = 99 * GIGABYTE) -> WorkerPool:
    return WorkerPool(start, REQUEST, model_bytes=GIGABYTE, headroom_bytes=lambda: headroom)


# Workers


def test_a_worker_answers_in_spite_of_noise_on_its_stdout(worker: Worker) -> None:
    assert worker.facts == {"version": "1", "target": "target.gguf"}
    assert worker.answer(REQUEST).text == "hello [1, 2, 3]"
    assert worker.answer(replace(REQUEST, max_tokens=5)).num_tokens == 5


def test_a_worker_that_raised_can_be_asked_again(worker: Worker) -> None:
    with pytest.raises(WorkerError, match="ValueError: it was told to raise"):
        worker.answer(replace(REQUEST, prompt_text="raise"))
    assert worker.answer(REQUEST).num_tokens == 8


def test_a_worker_that_died_leaves_its_exit_code_and_last_words(worker: Worker) -> None:
    with pytest.raises(WorkerError, match=rf"exit code 3; .*{fake_peer.COMPLAINT}"):
        worker.answer(replace(REQUEST, prompt_text="die"))
    with pytest.raises(WorkerError, match="exit code 3"):
        worker.answer(REQUEST)


def test_a_worker_that_hangs_is_given_up(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.peers.workers.ANSWER_SECONDS", 0.2)
    with pytest.raises(WorkerError, match="no answer in time"):
        worker.answer(replace(REQUEST, prompt_text="sleep"))
    worker.close()
    assert processes_of(worker) == []


def test_nothing_is_left_of_a_worker_that_died(worker: Worker) -> None:
    with pytest.raises(WorkerError, match=r"exit code 3; .*child \d+\."):
        worker.answer(replace(REQUEST, prompt_text="leave a child"))
    assert len(processes_of(worker)) == 1
    worker.close()
    end = time.monotonic() + 10  # it was told to end; that takes a moment
    while processes_of(worker) and time.monotonic() < end:
        time.sleep(0.01)
    assert processes_of(worker) == []


def processes_of(worker: Worker) -> list[str]:
    """Those that are alive."""
    return [directory.name for directory, stat in worker._processes() if stat[0] != "Z"]


def test_a_worker_rests_between_questions(worker: Worker) -> None:
    before = worker.cpu_seconds()
    worker.answer(replace(REQUEST, prompt_text="spin"))
    busy = worker.cpu_seconds()
    time.sleep(0.3)
    assert busy - before >= 0.15
    assert worker.cpu_seconds() == pytest.approx(busy, abs=0.03)
    assert worker.anonymous_bytes() > 1_000_000


def test_nothing_can_be_asked_before_it_is_opened() -> None:
    worker = Worker([sys.executable, "-m", "tests.support.fake_peer"])
    with pytest.raises(WorkerError, match="nothing was opened"):
        worker.answer(REQUEST)
    worker.close()
    worker.close()


# The pool


def test_workers_stay_open_while_there_is_room() -> None:
    pool = make_pool()
    first = pool.worker(ONE)
    second = pool.worker(OTHER)
    assert pool.worker(ONE) is first
    assert list(pool.others(ONE)) == [second]
    pool.close()
    assert list(pool.others(ONE)) == []


def test_without_room_the_worker_used_last_makes_way() -> None:
    # The first opens without a look. There is room for the second; for the third only when one has gone.
    rooms = iter([99 * GIGABYTE, GIGABYTE, 99 * GIGABYTE])
    pool = WorkerPool(start_fake, REQUEST, model_bytes=GIGABYTE, headroom_bytes=lambda: next(rooms))
    first = pool.worker(ONE)
    pool.worker(OTHER)
    third = pool.worker(THIRD)
    assert list(pool.others(ONE)) == [third]
    assert pool.worker(ONE) is first
    pool.close()


def test_a_worker_that_does_not_get_warm_is_no_worker() -> None:
    pool = WorkerPool(
        start_fake,
        replace(REQUEST, prompt_text="raise"),
        model_bytes=0,
        headroom_bytes=lambda: 99 * GIGABYTE,
    )
    with pytest.raises(WorkerError, match="told to raise"):
        pool.worker(ONE)
    assert list(pool.others(OTHER)) == []


# The schedule and the file of results


def measure(results: Results, arms: list[Arm], texts: dict[int, str] | None = None) -> None:
    requests = {
        prompt: replace(REQUEST, prompt_text=(texts or {}).get(prompt.number, prompt.text))
        for prompt in PROMPTS
    }
    tasks = schedule.missing_tasks("target", PROMPTS, arms, results.done)
    pool = make_pool()
    schedule.Schedule("target", pool, results, pause_seconds=0).run(tasks, requests)
    pool.close()


def of_kind(results: Results, kind: str) -> list[dict[str, Any]]:
    return [record for record in results.records if record["record"] == kind]


def test_who_begins_changes_from_prompt_to_prompt(tmp_path: Path) -> None:
    results = Results(tmp_path / "r.jsonl", SETTINGS)
    measure(results, [ONE, OTHER])
    order = [(record["prompt"], record["arm"]) for record in of_kind(results, "run")]
    one, other = "fake one", "fake other"
    assert order == [(0, one), (0, other), (1, other), (1, one), (2, one), (2, other)]
    assert [record["order"] for record in of_kind(results, "run")] == [1, 2, 3, 4, 5, 6]
    assert all(record["idle_cpu_seconds"] < 0.1 for record in of_kind(results, "run"))


def test_a_run_is_taken_up_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    measure(Results(path, SETTINGS), [ONE])
    lines = path.read_text().splitlines()
    # The machine went down while the last line was being written.
    path.write_text("\n".join([*lines[:-1], lines[-1][:40]]))
    resumed = Results(path, SETTINGS)
    assert resumed.done == {Key("target", "suite", number, "fake one") for number in (0, 1)}
    measure(resumed, [ONE, OTHER])
    again = Results(path, SETTINGS)
    assert len(again.done) == len(of_kind(again, "run")) == 6
    assert schedule.missing_tasks("target", PROMPTS, [ONE, OTHER], again.done) == []
    assert len(schedule.missing_tasks("another", PROMPTS, [ONE], again.done)) == 3


def test_results_with_other_settings_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    Results(path, SETTINGS).begin([], [ONE])
    with pytest.raises(ConfigError, match="other settings"):
        Results(path, replace(SETTINGS, max_tokens=9))
    assert of_kind(Results(path, SETTINGS), "session")[0]["settings"]["max_tokens"] == 8


def test_pieces_with_files_of_their_own_make_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path, seconds, arm in zip(paths, (2.0, 1.0), ("llama.cpp plain", "homespec auto"), strict=True):
        piece = Results(path, SETTINGS)
        piece.begin([], arms.ARMS)
        fill(piece, arm, [seconds, seconds])
    # The second piece is not finished; what is being written is no affair of the table's.
    with paths[1].open("a") as file:
        file.write('{"record": "ru')
    before = paths[1].read_text()
    merge.main([str(path) for path in paths])
    text = capsys.readouterr().out
    assert "| homespec auto | **8.00: 2.00 (2.00 to 2.00)** |" in text
    assert paths[1].read_text() == before
    fill(Results(paths[0], SETTINGS), "homespec auto", [4.0, 4.0])
    merge.main([*map(str, reversed(paths)), "--table", str(tmp_path / "t.md")])
    assert "| homespec auto | 2.00: 0.50 (0.50 to 0.50) |" in capsys.readouterr().out
    assert "| homespec auto | 2.00: 0.50 (0.50 to 0.50) |" in (tmp_path / "t.md").read_text()


def test_pieces_of_different_kinds_make_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours, other, missing = (tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl"))
    Results(ours, SETTINGS).begin([], arms.ARMS)
    Results(other, replace(SETTINGS, max_tokens=9)).begin([], arms.ARMS)
    for files, complaint in (
        ((ours, other), "differ in the setting max_tokens: 9 and 8"),
        ((missing,), "no re"),
    ):
        with pytest.raises(SystemExit) as stop:
            merge.main([str(path) for path in files])
        assert stop.value.code != 0
        assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("text", ["no json\n", "[]\n", '{"record": "run"}\n'])
def test_other_files_are_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(ConfigError, match="no results"):
        Results(path, SETTINGS)
    assert path.read_text() == text


def test_an_arm_that_fails_is_recorded_and_left_out(tmp_path: Path) -> None:
    results = Results(tmp_path / "r.jsonl", SETTINGS)
    refusing = Arm(PROGRAM, "refusing", {"refuse": True})
    measure(results, [refusing, ONE], {1: "raise"})
    failures = {record["arm"]: record["error"] for record in of_kind(results, "failure")}
    assert failures == {
        "fake refusing": "RuntimeError: it was told to refuse",
        "fake one": "ValueError: it was told to raise",
    }
    assert [record["prompt"] for record in of_kind(results, "run")] == [0]


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (fake_peer.make_answer("x", reused=2), "2 tokens of the prompt came from a cache"),
        (fake_peer.make_answer("x", num_tokens=9), "9 tokens came back"),
        (fake_peer.make_answer("", num_tokens=0), "0 tokens came back"),
    ],
)
def test_unfair_answers_are_refused(answer: Answer, complaint: str) -> None:
    with pytest.raises(WorkerError, match=complaint):
        schedule._check(answer, REQUEST)


# Arms and environments


def test_arms_have_names_of_their_own() -> None:
    names = [arm.name for arm in arms.ARMS]
    assert len(set(names)) == len(names)
    assert {arms.BASELINE, arms.HOMESPEC_PLAIN, arms.HOMESPEC_AUTO} < set(names)


def test_arms_are_chosen_by_name_and_by_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    chosen, notices = arms.choose_arms(["llama.cpp *", "llama-server *"], has_draft=False)
    assert arms.BASELINE in [arm.name for arm in chosen]
    assert not any("draft-simple" in arm.name or "server" in arm.name for arm in chosen)
    assert "llama-server is left out: there is no llama-server on the PATH." in notices
    assert len([notice for notice in notices if "--draft" in notice]) == 3
    chosen, _ = arms.choose_arms([], has_draft=True)
    assert {"homespec auto", "llama.cpp draft-simple 3"} < {arm.name for arm in chosen}


def test_an_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / f"thing-1.0-py{sys.version_info.major}{sys.version_info.minor}"
    commands: list[list[str]] = []

    def run(command: list[str], requirement: str) -> None:
        commands.append(command)
        home.mkdir(exist_ok=True)

    monkeypatch.setattr(environments, "_run", run)
    program = Program("fake", "fake", requirement="thing==1.0")
    for _ in range(2):
        assert environments.interpreter(program, tmp_path) == home / "bin" / "python"
    assert [command[1:3] for command in commands] == [["-m", "venv"], ["-m", "pip"]]


def test_no_environment_is_made_for_what_homespec_has() -> None:
    assert environments.interpreter(PROGRAM) == Path(sys.executable)


def test_a_package_that_cannot_be_installed_is_named() -> None:
    command = [sys.executable, "-c", "print('ERROR: no such package'); print('notice'); raise SystemExit(1)"]
    with pytest.raises(environments.InstallError, match=r"thing==1.0 could not be installed: ERROR: no such"):
        environments._run(command, "thing==1.0")


# Suites


def test_suites(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"prompt": "a"}\n\n{"prompt": "b"}\n{"prompt": "c"}\n')
    assert prompts.read_suites([path], 2) == [Prompt("mine", 0, "a"), Prompt("mine", 1, "b")]
    with pytest.raises(ConfigError, match="same name"):
        prompts.read_suites([path, path], 2)
    path.write_text('{"question": "a"}\n')
    with pytest.raises(ConfigError, match="cannot be read as prompts"):
        prompts.read_suites([path], 2)
    path.write_text("")
    with pytest.raises(ConfigError, match="no prompts"):
        prompts.read_suites([path], 2)


# The table


def fill(results: Results, arm: str, seconds: list[float], texts: str = "same") -> None:
    known = {known.name: known for known in arms.ARMS}[arm]
    for prompt, duration in zip(PROMPTS, seconds, strict=False):
        answer = fake_peer.make_answer(f"{texts} {prompt.number}", seconds=duration)
        if arm == "homespec auto":
            answer = replace(answer, num_draft_tokens=4, num_accepted_tokens=2)
        results.add("target", prompt, known, Measurement(answer, 1, 0.0, 0))


@pytest.fixture
def results(tmp_path: Path) -> Results:
    found = Results(tmp_path / "r.jsonl", SETTINGS)
    found.begin([], arms.ARMS)
    fill(found, "llama.cpp plain", [2.0, 4.0, 2.0])
    fill(found, "llama.cpp ngram-mod", [4.0, 8.0, 4.0])
    fill(found, "homespec plain", [2.02, 4.02, 2.02])
    fill(found, "homespec auto", [1.0, 2.0, 1.0], texts="other")
    return found


def test_pairs(results: Results) -> None:
    found = table.TargetTable("target", results.records)
    pairs = found.pairs("suite", "homespec auto")
    assert pairs is not None
    assert pairs.tokens_per_second == pytest.approx(24 / 4)
    assert pairs.ratio().value == pytest.approx(2)
    assert pairs.ratio().interval() == pytest.approx((2, 2))
    assert pairs.ratio("decode_").value == pytest.approx(2)
    assert (len(pairs.ours), pairs.num_equal_texts) == (3, 0)
    assert found.best("suite") == "homespec auto"
    assert found.best("suite", ("llama.cpp ",)) == "llama.cpp plain"
    for baseline, ratio in (("llama.cpp plain", 2), ("llama.cpp ngram-mod", 4)):
        overall = table.TargetTable("target", results.records, baseline).overall("homespec auto")
        assert overall is not None
        assert overall.value == pytest.approx(ratio)


def test_only_prompts_that_both_have_answered_are_compared(results: Results) -> None:
    fill(results, "llama-cpp-python plain", [4.0])
    pairs = table.TargetTable("target", results.records).pairs("suite", "llama-cpp-python plain")
    assert pairs is not None
    assert len(pairs.ours) == 1
    assert pairs.ratio().value == pytest.approx(0.5)


def test_the_table_says_what_follows(results: Results) -> None:
    text = table.markdown(results.records)
    assert "| arm | suite | all | accepted | same text |" in text
    assert (
        "| homespec auto | **6.00: 2.00 (2.00 to 2.00)** | 2.000 (2.00 to 2.00) | 6 of 12 | 0 of 3 |" in text
    )
    assert "| llama.cpp plain | 3.00: 1.00 (1.00 to 1.00) | 1.000 (1.00 to 1.00) |  | 3 of 3 |" in text
    assert "homespec auto against the best of llama.cpp (llama.cpp plain): 2.000 (2.00 to 2.00)." in text
    assert "homespec plain is within 3% of llama.cpp plain: 0.993" in text
    fill(results, "llama-server plain", [1.0, 2.0, 1.0])
    text = table.markdown(results.records, "llama-server plain")
    assert "homespec plain is more than 3% slower than llama-server plain: 0.496" in text
    assert "homespec auto against the best of llama.cpp (llama-server plain): 1.000" in text


def test_the_table_says_what_went_wrong(results: Results) -> None:
    failing = {known.name: known for known in arms.ARMS}["llama.cpp ngram-simple"]
    results.failed("target", failing, "it broke")
    disturbed = Measurement(fake_peer.make_answer("x"), 1, idle_cpu_seconds=0.5, anonymous_bytes=0)
    results.add("target", PROMPTS[0], arms.ARMS[-1], disturbed)
    text = table.markdown(results.records)
    assert "Left out after 0 replies: llama.cpp ngram-simple: it broke" in text
    assert "In 1 of 13 runs, the processes of other arms took more than 1% of a core's time." in text


def test_a_table_without_the_baseline(tmp_path: Path) -> None:
    found = Results(tmp_path / "r.jsonl", SETTINGS)
    assert table.markdown(found.records) == ""
    fill(found, "homespec auto", [1.0])
    assert "Nothing to compare: llama.cpp plain has no results." in table.markdown(found.records)


# Programs


def test_greedy_requests_to_llama_cpp_are_plain_and_start_anew() -> None:
    body = completions.completion_request(REQUEST)
    assert body["prompt"] == [1, 2, 3]
    assert (body["samplers"], body["top_k"], body["cache_prompt"]) == (["top_k"], 1, False)
    sampled = completions.completion_request(replace(REQUEST, temperature=0.7))
    assert (sampled["samplers"], sampled["top_k"], sampled["temperature"]) == (["temperature"], 0, 0.7)


def test_what_is_no_completion_is_shown() -> None:
    with pytest.raises(ValueError, match=r"the server answered.*too long"):
        completions.read_completion({"error": {"message": "too long"}}, 1.0)


def test_llama_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_servers.install(monkeypatch, tmp_path, "llama-server")
    settings = {"spec-type": "draft-simple", "spec-draft-n-max": 3}
    server = llama_server.LlamaServer(replace(OPENING, draft="draft.gguf", settings=settings))
    try:
        assert server.facts == {"version": "4711 (abcdef)"}
        answer = server.answer(REQUEST)
        with pytest.raises(ValueError, match=r"answered 400.*no prompt"):
            server.answer(replace(REQUEST, prompt_tokens=()))
    finally:
        server.close()
    seen = json.loads(answer.text)
    assert seen["body"] == completions.completion_request(REQUEST)
    words = " ".join(seen["arguments"])
    assert words.startswith("--model target.gguf --ctx-size 256 --threads 1 --threads-batch 1 --parallel 1")
    assert "--model-draft draft.gguf" in words
    assert words.endswith("--spec-type draft-simple --spec-draft-n-max 3")
    assert (answer.num_tokens, answer.decode_tokens, answer.prompt_tokens) == (5, 4, 3)
    assert (answer.num_draft_tokens, answer.num_accepted_tokens) == (6, 4)
    assert answer.decode_seconds == pytest.approx(0.004)
    assert answer.ttft_seconds == pytest.approx(answer.seconds - 0.004)


def test_a_llama_server_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "llama-server"
    program.write_text("#!/bin/sh\nexit 7\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(RuntimeError, match="exit code 7"):
        llama_server.LlamaServer(OPENING)


def test_ollama(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_servers.install(monkeypatch, tmp_path, "ollama")
    server = ollama_server.Ollama(OPENING)
    try:
        assert server.facts == {"version": "0.99"}
        answer = server.answer(REQUEST)
    finally:
        server.close()
    seen = json.loads(answer.text)
    # Another text comes first, so that nothing of the prompt is in the cache.
    assert seen["prompts"] == [".", "hello"]
    assert seen["body"]["raw"] is True
    assert seen["body"]["options"]["num_thread"] == 1
    assert (answer.num_tokens, answer.finish_reason) == (5, "stop")
    assert answer.decode_seconds == pytest.approx(0.004)
    assert answer.prompt_seconds == pytest.approx(0.002)


def test_an_ollama_that_does_not_take_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_servers.install(monkeypatch, tmp_path, "ollama")
    with pytest.raises(RuntimeError, match="does not take the model: no such file"):
        ollama_server.Ollama(replace(OPENING, target="missing.gguf"))


def test_accepted_tokens_of_prompt_lookup_are_counted_by_what_the_history_grew() -> None:
    # All of 2, none of 3, no draft, then 1 of 4 until the end.
    drafts = [(10, 2), (13, 3), (14, 0), (15, 4)]
    assert llama_cpp_python.count_accepted(drafts, end=17) == 2 + 0 + 0 + 1
    assert llama_cpp_python.count_accepted([], end=17) == 0


def test_programs_on_llama_cpp_say_the_same(tiny_target: Path) -> None:
    request = replace(REQUEST, prompt_tokens=(5, 6, 7, 5, 6, 7, 5, 6), max_tokens=12)
    texts: dict[str, str] = {}
    for name, program in (
        ("homespec", lambda: HomespecEngine(tiny_opening(tiny_target, speculate=False))),
        ("llama-cpp-python", lambda: llama_cpp_python.LlamaCppPython(tiny_opening(tiny_target))),
        ("lookup", lambda: llama_cpp_python.LlamaCppPython(tiny_opening(tiny_target, num_pred_tokens=3))),
    ):
        opened = program()
        try:
            first, second = opened.answer(request), opened.answer(request)
        finally:
            opened.close()
        assert first.text == second.text
        assert first.num_tokens <= 12
        assert first.reused_prompt_tokens == second.reused_prompt_tokens == 0
        assert 0 < first.ttft_seconds <= first.seconds
        texts[name] = first.text
    assert len(set(texts.values())) == 1, texts


def tiny_opening(target: Path, **settings: object) -> Opening:
    return replace(OPENING, target=str(target), settings=settings)


def test_the_whole_program(tiny_target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite, results = tmp_path / "suite.jsonl", tmp_path / "results.jsonl"
    suite.write_text('{"prompt": "abc"}\n{"prompt": "cab"}\n')
    command = [
        "--target",
        str(tiny_target),
        "--prompts",
        str(suite),
        "--max-tokens",
        "4",
        "--jsonl",
        str(results),
    ]
    command += ["--context-tokens", "128", "--threads", "1", "--baseline", "llama-cpp-python plain"]
    command += ["--arms", "homespec plain", "llama-cpp-python plain"]
    text = run.compare(run.parse_options(command))
    assert "| homespec plain | " in text
    assert "2 of 2 |" in text
    assert len(results.read_text().splitlines()) == 1 + 2 + 4
    assert "[4/4] tiny-target, suite 1, homespec plain" in capsys.readouterr().err
    # Nothing is left to measure, and the table is the same.
    assert run.compare(run.parse_options(command)) == text
    assert len(results.read_text().splitlines()) == 1 + 2 + 4
    assert capsys.readouterr().err == ""
