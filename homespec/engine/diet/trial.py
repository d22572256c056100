"""One draft model on trial: what it costs beside the original, and what it would have proposed."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from homespec.calibration.costs import DrafterCosts
from homespec.calibration.fingerprint import fingerprint
from homespec.calibration.measure import measure_drafters
from homespec.calibration.threads import chosen_threads
from homespec.catalog.gguf_header import GgufHeader, read_header
from homespec.catalog.trimmed import read_trim
from homespec.catalog.vocabulary import check_vocabularies
from homespec.engine.diet.passages import Passage
from homespec.engine.diet.recording import CHUNK_ROWS, Recording, record
from homespec.runtime.binding import AbortFlag
from homespec.runtime.context import LlamaContext
from homespec.runtime.model import LlamaModel
from homespec.runtime.trimmed import TrimmedVocabulary

# Some seconds: medians of two dozen decodes by turns tell 3% apart.
_MAX_SAMPLES = 24
_BUDGET_SECONDS = 8.0
_SPARE_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Bench:
    """What draft models of one target are tried on.

    Attributes:
        target: header of its file, for the vocabulary gate.
        passages: along which they may be recorded.
        abort: stops decodes.
    """

    target: GgufHeader
    passages: Sequence[Passage]
    abort: AbortFlag

    def measure(self, paths: Sequence[Path]) -> list[DrafterCosts]:
        """The costs of draft models, measured by turns.

        Raises:
            DecodeAbortedError: stopped on request.
            VocabMismatchError: one of them does not speak the target's tokens.
        """
        with contextlib.ExitStack() as stack:
            contexts = [stack.enter_context(self._opened(path, max_rows=1)) for path in paths]
            return measure_drafters(contexts, budget_seconds=_BUDGET_SECONDS, max_samples=_MAX_SAMPLES)

    def record(
        self, path: Path, passages: Sequence[Passage], expected: Counter[int] | None = None
    ) -> list[Recording]:
        """A draft model's proposals.

        Args:
            path: of its file.
            passages: some of those of the bench.
            expected: see `recording.record`.

        Raises:
            DecodeAbortedError: stopped on request.
            VocabMismatchError: it does not speak the target's tokens.
        """
        with self._opened(path, max_rows=CHUNK_ROWS) as context:
            return [record(context, passage, expected) for passage in passages]

    @contextlib.contextmanager
    def _opened(self, path: Path, max_rows: int) -> Iterator[LlamaContext]:
        header = read_header(path)
        check_vocabularies(self.target, header)
        trim = read_trim(header)
        threads = chosen_threads(fingerprint(path), None, None)
        longest = max((len(passage.tokens) for passage in self.passages), default=0)
        with LlamaModel(path) as model:
            context = LlamaContext(
                model,
                context_tokens=longest + _SPARE_TOKENS,
                max_rows=max_rows,
                num_threads=threads.single,
                num_batch_threads=threads.batch,
                abort=self.abort,
                trimmed=TrimmedVocabulary(trim) if trim else None,
            )
            try:
                yield context
            finally:
                context.close()
