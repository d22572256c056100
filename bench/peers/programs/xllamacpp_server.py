"""llama.cpp's own server, as the library in the package xllamacpp. Settings are the server's options.

The server is asked in this process, without HTTP. Wheels for Linux are compiled for any CPU with AVX2 and not
for the one at hand; a `llama-server` on the PATH can be.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import reduce
from typing import Any

import xllamacpp

from bench.peers.programs.completions import completion_request, read_completion
from bench.peers.protocol import Answer, Opening, Request, serve

_TYPE = "spec-type"
# Where the options of llama-server lie in `CommonParams.speculative`.
_ATTRIBUTES = {
    "spec-draft-n-max": "draft.n_max",
    "spec-ngram-simple-size-n": "ngram_simple.size_n",
    "spec-ngram-simple-size-m": "ngram_simple.size_m",
    "spec-ngram-mod-n-match": "ngram_mod.n_match",
    "spec-ngram-mod-n-min": "ngram_mod.n_min",
    "spec-ngram-mod-n-max": "ngram_mod.n_max",
}


class XllamacppServer:
    """Implements `protocol.Program`."""

    def __init__(self, opening: Opening) -> None:
        """Loads the models and starts the server's thread."""
        self.facts: Mapping[str, object] = {
            "version": xllamacpp.__version__,
            "build": xllamacpp.BUILD_INFO,
            "system": xllamacpp.get_system_info(),
        }
        self._server = xllamacpp.Server(_params(opening))

    def answer(self, request: Request) -> Answer:
        """See `Program`."""
        body = completion_request(request)
        start = time.perf_counter()
        answer = self._server.handle_completions(body)
        return read_completion(answer, time.perf_counter() - start)

    def close(self) -> None:
        """See `Program`; the server ends with the worker."""


def _params(opening: Opening) -> Any:  # noqa: ANN401 - an extension type without annotations
    params = xllamacpp.CommonParams()
    params.model.path = opening.target
    params.n_ctx = opening.context_tokens
    params.n_parallel = 1
    params.cache_ram_mib = 0
    speculative = params.speculative
    cpus = [params.cpuparams, params.cpuparams_batch]
    if opening.draft is not None:
        speculative.draft.mparams.path = opening.draft
        cpus += [speculative.draft.cpuparams, speculative.draft.cpuparams_batch]
    for cpu in cpus:
        cpu.n_threads = opening.num_threads
    for option, value in opening.settings.items():
        if option == _TYPE:
            speculative.types = [_speculative_type(name) for name in str(value).split(",")]
        else:
            *path, attribute = _ATTRIBUTES[option].split(".")
            setattr(reduce(getattr, path, speculative), attribute, value)
    return params


def _speculative_type(name: str) -> Any:  # noqa: ANN401 - a member of an enumeration without annotations
    member = f"COMMON_SPECULATIVE_TYPE_{name.upper().replace('-', '_')}"
    return getattr(xllamacpp.common_speculative_type, member)


if __name__ == "__main__":
    serve(XllamacppServer)
