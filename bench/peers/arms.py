"""Who takes part: programs, and the settings that each is measured with."""

from __future__ import annotations

import fnmatch
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

XLLAMACPP = "xllamacpp==2026.10.11549"
"""llama.cpp's server as a library; the one place that names the version to measure."""

BASELINE = "llama.cpp plain"
HOMESPEC_PLAIN, HOMESPEC_AUTO = "homespec plain", "homespec auto"

Settings = Mapping[str, object]
DraftUse = Literal["none", "optional", "required"]


@dataclass(frozen=True, slots=True)
class Program:
    """Something that answers prompts.

    Attributes:
        name: of the program.
        module: the worker's, below `bench.peers.programs`.
        requirement: the package that the worker needs, for a virtual environment of its own; None for the
            environment of homespec, which has llama-cpp-python anyway: compiled by the same compiler, so that
            the comparison is one of programs.
        binary: what must be on the PATH; None if nothing.
    """

    name: str
    module: str
    requirement: str | None = None
    binary: str | None = None

    @property
    def available(self) -> bool:
        """Whether the binary is there."""
        return self.binary is None or shutil.which(self.binary) is not None


@dataclass(frozen=True, slots=True)
class Arm:
    """A program with settings.

    Attributes:
        program: what answers.
        setting: its name among the program's settings.
        settings: for the worker.
        draft: whether it uses a draft model.
    """

    program: Program
    setting: str
    settings: Settings = field(default_factory=dict)
    draft: DraftUse = "none"

    @property
    def name(self) -> str:
        """Program and setting."""
        return f"{self.program.name} {self.setting}"


_HOMESPEC = Program("homespec", "homespec_engine")
_LLAMA_CPP = Program("llama.cpp", "xllamacpp_server", requirement=XLLAMACPP)
_LLAMA_CPP_PYTHON = Program("llama-cpp-python", "llama_cpp_python")
_LLAMA_SERVER = Program("llama-server", "llama_server", binary="llama-server")
_OLLAMA = Program("ollama", "ollama_server", binary="ollama")

# Options of llama-server. Without a number stand llama.cpp's own defaults: ngram-simple looks for 12 tokens
# to propose 48, ngram-mod for 24 to propose 48 to 64. Those with numbers are made for replies of some hundred
# tokens on a CPU, where checking many tokens at once costs much (`homespec calibrate --show`).
_SERVER_SETTINGS: Mapping[str, Settings] = {
    "plain": {},
    "draft-simple 3": {"spec-type": "draft-simple", "spec-draft-n-max": 3},
    "draft-simple 5": {"spec-type": "draft-simple", "spec-draft-n-max": 5},
    "ngram-simple": {"spec-type": "ngram-simple"},
    "ngram-simple 3/5": {
        "spec-type": "ngram-simple",
        "spec-ngram-simple-size-n": 3,
        "spec-ngram-simple-size-m": 5,
    },
    "ngram-mod": {"spec-type": "ngram-mod"},
    "ngram-mod 4/5": {
        "spec-type": "ngram-mod",
        "spec-ngram-mod-n-match": 4,
        "spec-ngram-mod-n-min": 1,
        "spec-ngram-mod-n-max": 5,
    },
    "ngram-simple 3/5 + draft-simple 5": {
        "spec-type": "ngram-simple,draft-simple",
        "spec-ngram-simple-size-n": 3,
        "spec-ngram-simple-size-m": 5,
        "spec-draft-n-max": 5,
    },
}


def _server_arms(program: Program) -> list[Arm]:
    return [Arm(program, name, settings, _draft_use(settings)) for name, settings in _SERVER_SETTINGS.items()]


def _draft_use(settings: Settings) -> DraftUse:
    return "required" if "draft-simple" in str(settings.get("spec-type")) else "none"


ARMS: Sequence[Arm] = (
    Arm(_HOMESPEC, "plain", {"speculate": False}),
    Arm(_HOMESPEC, "auto", {"speculate": True}, "optional"),
    *_server_arms(_LLAMA_CPP),
    Arm(_LLAMA_CPP_PYTHON, "plain"),
    # 10 is the default of LlamaPromptLookupDecoding; its README advises 2 without a GPU.
    Arm(_LLAMA_CPP_PYTHON, "prompt-lookup 10", {"num_pred_tokens": 10}),
    Arm(_LLAMA_CPP_PYTHON, "prompt-lookup 2", {"num_pred_tokens": 2}),
    *_server_arms(_LLAMA_SERVER),
    Arm(_OLLAMA, "plain"),
)


def choose_arms(patterns: Sequence[str], *, has_draft: bool) -> tuple[list[Arm], list[str]]:
    """The arms that can be measured here.

    Args:
        patterns: names with wildcards (`homespec *`); all arms if there are none.
        has_draft: whether there is a draft model.

    Returns:
        The arms, and a sentence for each program or arm that is left out for want of something.
    """
    wanted = [arm for arm in ARMS if not patterns or _matches(arm.name, patterns)]
    notices: dict[str, None] = {}
    arms: list[Arm] = []
    for arm in wanted:
        if not arm.program.available:
            notices[f"{arm.program.name} is left out: there is no {arm.program.binary} on the PATH."] = None
        elif arm.draft == "required" and not has_draft:
            notices[f"{arm.name} is left out: there is no draft model (--draft)."] = None
        else:
            arms.append(arm)
    return arms, list(notices)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
