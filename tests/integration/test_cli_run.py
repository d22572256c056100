"""`homespec run` as a user meets it: in a process of its own, so that a native abort would be seen."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.conftest import SMOLLM2, require

# A fixed draft length: what the controller would choose depends on the machine.
RUN = [sys.executable, "-m", "homespec", "run", "--draft-length", "5"]


def homespec(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
        check=False,
    )


def assert_one_sentence(result: subprocess.CompletedProcess[str], *words: str, code: int = 1) -> None:
    """The command failed with one error line and at most one hint, both without a traceback."""
    lines = result.stderr.strip().splitlines()
    assert result.returncode == code, result.stderr
    assert lines[0].startswith("Error: "), result.stderr
    assert len(lines) <= 2, result.stderr
    assert all(line.startswith("Hint: ") for line in lines[1:])
    for word in words:
        assert word in lines[0]
    assert result.stdout == ""


@pytest.mark.model
class TestWithSmolLM2:
    @pytest.fixture(autouse=True)
    def _needs_the_model(self) -> None:
        require(SMOLLM2)

    def test_the_answer_goes_to_stdout_and_the_rest_to_stderr(self) -> None:
        result = homespec("--temperature", "0", "--max-tokens", "8", "Say hello.")
        assert result.returncode == 0
        assert result.stdout.endswith("\n")
        assert re.fullmatch(
            r"spec: ngram, .* \| first token .* \| \d+ tokens, context \d+/4096.*\n", result.stderr
        )

    def test_json_is_one_object_with_everything(self) -> None:
        result = homespec("--json", "--temperature", "0", "--max-tokens", "40", "Count to ten, twice.")
        reply = json.loads(result.stdout)
        assert set(reply) == {
            "text", "token_ids", "finish_reason", "target", "drafter", "verifier", "seed", "stats", "plan",
        }  # fmt: skip
        stats = reply["stats"]
        assert stats["completion_tokens"] == len(reply["token_ids"])
        assert sum(stats["accepted_per_position"]) == stats["num_accepted_tokens"]
        assert sum(stats["drafted_per_position"]) == stats["num_draft_tokens"]
        assert stats["rss_anon_bytes"] > 0
        assert reply["plan"]["reason"] == "on"
        assert reply["verifier"] == "greedy"

    def test_a_seed_is_chosen_and_told(self) -> None:
        first = json.loads(homespec("--json", "--max-tokens", "12", "Tell me a story.").stdout)
        again = homespec("--json", "--max-tokens", "12", "--seed", str(first["seed"]), "Tell me a story.")
        assert json.loads(again.stdout)["text"] == first["text"]

    def test_the_first_run_measures_once(self, tmp_path: Path) -> None:
        flags = ["--draft-length", "auto", "-c", "512", "--max-tokens", "8"]
        first = homespec(*flags, "Hi", HOMESPEC_STATE=str(tmp_path))
        assert "Measuring how fast this machine is" in first.stderr
        second = homespec(*flags, "Hi", HOMESPEC_STATE=str(tmp_path))
        assert "Measuring" not in second.stderr

    def test_a_measurement_for_something_else_is_told(self, tmp_path: Path) -> None:
        flags = ["--draft-length", "auto", "-d", "ngram", "-c", "256", "-n", "4", "Hi"]
        state = {"HOMESPEC_STATE": str(tmp_path)}
        homespec("--threads", "1", *flags, **state)
        again = homespec("--threads", "2", *flags, **state).stderr.splitlines()
        assert again[0].endswith("for something else (threads: 1, now 2; batch threads: 1, now 2).")
        assert again[1].startswith("Measuring how fast this machine is")

    def test_without_a_measurement_there_is_no_speculation(self, tmp_path: Path) -> None:
        flags = ["--draft-length", "auto", "--no-calibrate", "--max-tokens", "8", "--json"]
        reply = json.loads(homespec(*flags, "Hi", HOMESPEC_STATE=str(tmp_path)).stdout)
        assert reply["plan"]["reason"] == "not_calibrated"
        assert reply["stats"]["num_drafts"] == 0

    def test_a_seed_repeats_under_control(self) -> None:
        flags = ["--draft-length", "auto", "--temperature", "1", "--max-tokens", "60", "--json"]
        first, second, other = (
            json.loads(homespec(*flags, "--seed", seed, "List fruits, then list them again.").stdout)
            for seed in ("7", "7", "8")
        )
        assert first["token_ids"] == second["token_ids"]
        assert first["stats"]["width_counts"] == second["stats"]["width_counts"]
        assert first["token_ids"] != other["token_ids"]

    def test_off_says_why(self) -> None:
        result = homespec("--draft", "off", "--max-tokens", "4", "Hi")
        assert "spec: off (off_by_user" in result.stderr
        plan = json.loads(homespec("--json", "--draft-length", "0", "--max-tokens", "4", "Hi").stdout)["plan"]
        assert (plan["speculation"], plan["reason"], plan["draft_length"]) == (False, "off_by_user", 0)

    def test_the_prompt_may_come_from_a_pipe(self) -> None:
        assert homespec("--max-tokens", "4", stdin="Hello").returncode == 0
        assert homespec("--max-tokens", "4", "-", stdin="Hello").returncode == 0

    def test_options_come_from_flags_then_environment_then_file(self, tmp_path: Path) -> None:
        config = tmp_path / "config.toml"
        config.write_text("[run]\nmax-tokens = 3\ntemperature = 0.0\n")

        def completion_tokens(*flags: str, **environment: str) -> int:
            environment["HOMESPEC_CONFIG"] = str(config)
            result = homespec("--json", *flags, "Tell me a long story.", **environment)
            return int(json.loads(result.stdout)["stats"]["completion_tokens"])

        assert completion_tokens() == 3
        assert completion_tokens(HOMESPEC_MAX_TOKENS="4") == 4
        assert completion_tokens("--max-tokens", "5", HOMESPEC_MAX_TOKENS="4") == 5
        config.write_text("[run]\nmax-tonkes = 3\n")
        assert_one_sentence(homespec("Hi", HOMESPEC_CONFIG=str(config)), "max_tonkes", str(config), code=2)

    def test_a_reader_that_goes_away_is_no_error_of_ours(self) -> None:
        command = [*RUN, "--max-tokens", "200", "--logit-bias", "2=-inf", "Tell me a long story."]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()
        process.stderr.close()
        assert process.wait(timeout=60) == 1

    def test_a_prompt_that_does_not_fit(self) -> None:
        result = homespec("--context-tokens", "64", "word " * 100)
        assert_one_sentence(result, "tokens; the context holds 64")

    @pytest.mark.parametrize(
        ("flags", "word"),
        [
            (["--temperature", "-1"], "temperature"),
            (["--top-p", "1.5"], "top_p"),
            (["--draft-length", "99"], "draft length"),
            (["--context-tokens", "9999999"], "trained on 8,192"),
            (["--context-tokens", "2"], "16 are needed"),
            (["--threads", "0"], "--threads"),
            (["--max-tokens", "0"], "--max-tokens"),
            (["--grammar", "root ::= x"], "--grammar is not supported"),
            (["--logit-bias", "x"], "--logit-bias"),
            (["--verifier", "greedy"], "greedy"),
            (["--raw", "--system", "x"], "--raw"),
        ],
    )
    def test_options_out_of_range(self, flags: Sequence[str], word: str) -> None:
        assert_one_sentence(homespec(*flags, "Hi"), word, code=2)

    @pytest.mark.parametrize("when", ["prefill", "decode"])
    @pytest.mark.parametrize("as_json", [False, True])
    def test_ctrl_c_keeps_the_partial_text(self, when: str, as_json: bool) -> None:
        long_prompt = "Continue this story in great detail. " + "Once upon a time there was a king. " * 600
        prompt = long_prompt if when == "prefill" else "Write a very long story about a king."
        flags = ["--context-tokens", "8000", "--temperature", "0", "--logit-bias", "2=-inf"]
        command = [*RUN, *flags, *(["--json"] if as_json else []), prompt]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        if when == "decode" and not as_json:
            assert process.stdout.read(1)
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
        assert process.returncode == 130, stderr
        assert "Traceback" not in stderr
        assert stderr.startswith("spec: ")
        assert stderr.rstrip().endswith("interrupted")
        if as_json:
            reply = json.loads(stdout)
            assert reply["finish_reason"] == "interrupted"
            assert (reply["text"] == "") == (when == "prefill")
        else:
            assert (stdout == "") == (when == "prefill")


class TestBadInput:
    def test_no_such_model(self) -> None:
        result = homespec("-m", "smollm2-135m-instruckt", "Hi")
        assert_one_sentence(result, "There is no model 'smollm2-135m-instruckt'")
        assert "Did you mean smollm2-135m-instruct" in result.stderr

    def test_json_stays_json_on_an_error(self) -> None:
        result = homespec("--json", "-m", "/nowhere/x.gguf", "Hi")
        assert result.returncode == 1
        error = json.loads(result.stdout)["error"]
        assert error["code"] == "model_not_found"
        assert error["message"]
        assert error["hint"]

    def test_usage_errors_are_json_too(self) -> None:
        result = homespec("--json", "--no-such-option", "Hi")
        assert result.returncode == 2
        assert json.loads(result.stdout)["error"]["code"] == "usage"

    @pytest.mark.parametrize("role", ["-m", "-d"])
    @pytest.mark.parametrize("kind", ["empty", "html", "magic", "counts", "directory", "missing"])
    def test_files_that_are_no_models(self, kind: str, role: str, tmp_path: Path, tiny_target: Path) -> None:
        path = tmp_path / "bad.gguf"
        whole = tiny_target.read_bytes()
        if kind == "directory":
            path.mkdir()
        elif kind != "missing":
            path.write_bytes(
                {
                    "empty": b"",
                    "html": b"<!DOCTYPE html><html><body>404 Not Found</body></html>" * 10,
                    "magic": b"GGML" + whole[4:],
                    "counts": whole[:8] + b"\xff" * 16 + whole[24:],
                }[kind]
            )
        flags = ["-m", str(path)] if role == "-m" else ["-m", str(tiny_target), "-d", str(path)]
        assert_one_sentence(homespec(*flags, "Hi"), "bad.gguf")

    @pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.3, 0.6, 0.9, 0.999])
    def test_truncated_files(self, share: float, tmp_path: Path, tiny_target: Path) -> None:
        path = tmp_path / "short.gguf"
        whole = tiny_target.read_bytes()
        path.write_bytes(whole[: int(len(whole) * share)])
        assert_one_sentence(homespec("-m", str(path), "Hi"), "short.gguf")

    def test_an_unknown_architecture(self, tmp_path: Path, tiny_target: Path) -> None:
        path = tmp_path / "strange.gguf"
        path.write_bytes(tiny_target.read_bytes().replace(b"llama", b"lambo"))
        assert_one_sentence(homespec("-m", str(path), "Hi"), "strange.gguf", "architecture", "lambo")

    def test_a_missing_tensor(self, tmp_path: Path, tiny_target: Path) -> None:
        path = tmp_path / "hole.gguf"
        path.write_bytes(tiny_target.read_bytes().replace(b"output_norm.weight", b"output_mron.weight"))
        assert_one_sentence(homespec("-m", str(path), "Hi"), "hole.gguf", "output_norm")

    def test_a_draft_model_of_another_vocabulary(self, tiny_target: Path, tiny_stranger: Path) -> None:
        result = homespec("-m", str(tiny_target), "-d", str(tiny_stranger), "-n", "4", "--json", "Hi")
        assert result.returncode == 0
        plan = json.loads(result.stdout)["plan"]
        assert plan["reason"] == "vocabulary_mismatch"
        assert "token" in plan["explanation"]

    def test_a_draft_model_of_the_same_vocabulary(self, tiny_target: Path, tiny_near_copy: Path) -> None:
        flags = ["-m", str(tiny_target), "-n", "40", "--temperature", "0", "--json", "Hi"]
        plain = json.loads(homespec(*flags, "-d", "off").stdout)
        drafted = json.loads(homespec(*flags, "-d", str(tiny_near_copy)).stdout)
        assert drafted["token_ids"] == plain["token_ids"]
        assert drafted["stats"]["num_accepted_tokens"] > 0

    def test_a_model_that_cannot_roll_back_decodes_plainly(self, tiny_recurrent: Path) -> None:
        flags = ["-m", str(tiny_recurrent), "-n", "30", "--temperature", "0", "--json", "abcabcabcabc"]
        drafted, plain = (json.loads(homespec(*flags, "-d", draft).stdout) for draft in ("ngram", "off"))
        assert drafted["plan"]["reason"] == "cannot_roll_back"
        assert drafted["stats"]["num_drafts"] == 0
        assert drafted["token_ids"] == plain["token_ids"]

    def test_the_context_fills_to_the_last_token(self, tiny_target: Path) -> None:
        ends = {"2=-inf", "368=-inf"}  # </s> and <|im_end|>
        flags = ["-m", str(tiny_target), "-c", "64", "--json", "-d", "ngram"]
        flags += [part for end in ends for part in ("--logit-bias", end)]
        reply = json.loads(homespec(*flags, "abcabcabc").stdout)
        assert reply["finish_reason"] == "context"
        assert reply["stats"]["prompt_tokens"] + reply["stats"]["completion_tokens"] == 64
