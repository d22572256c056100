"""What an open model costs in memory, part by part."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, Protocol

KvType = Literal["f16", "q8_0", "q4_0"]

MIB = 1 << 20

# Measured: RssAnon of `homespec run` with NumPy, llama.cpp's library and the terminal's, before any model.
PROCESS_ANON_BYTES = 28 * MIB
# Measured: RssFile of the same: the interpreter's and the libraries' pages.
PROCESS_FILE_BYTES = 24 * MIB
# The lookup index: HISTORY_FIXED_BYTES and HISTORY_BYTES_PER_TOKEN of drafting.suffix (a test compares them).
NGRAM_FIXED_BYTES, NGRAM_BYTES_PER_TOKEN = 1 << 19, 16
# While the machine is measured no decode is wider; see calibration.measure (a test compares them).
MEASURING_BATCH_TOKENS = 64
# Copies of one row of logits while a token is chosen from it, in double precision.
_SAMPLER_BYTES_PER_LOGIT = 24


class MemoryFacts(Protocol):
    """What prices are made of; `catalog.facts.ModelFacts` is one."""

    @property
    def name(self) -> str:
        """For people."""

    @property
    def is_known(self) -> bool:
        """Whether the prices are expected to hold; they are upper bounds otherwise."""

    @property
    def training_context_tokens(self) -> int:
        """The longest context that the model was trained on; 0 where unknown."""

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""

    @property
    def state_bytes(self) -> int:
        """Running state of recurrent layers."""

    @property
    def mapped_bytes(self) -> int:
        """Pages of the mapped file."""

    @property
    def overhead_bytes(self) -> int:
        """Tokenizer, graphs and tables."""

    @property
    def correction_bytes(self) -> int:
        """What earlier loads taught about these prices."""

    @property
    def made_from(self) -> str | None:
        """The model that this one was reduced from, if it was."""

    def lookup_bytes(self, context_tokens: int) -> int:
        """Mapped pages of rows that are fetched token by token."""

    def repacked_bytes(self, cpu_features: frozenset[str]) -> int:
        """The second copy of weights on a CPU with these features."""

    def idle_mapped_bytes(self, cpu_features: frozenset[str]) -> int:
        """Mapped pages that are read only while loading."""

    def kv_cache_bytes(self, context_tokens: int, kv_type: str) -> int:
        """The KV cache."""

    def compute_bytes(self, context_tokens: int, num_rows: int, batch_tokens: int) -> int:
        """Activations, mask and work buffer."""

    def output_bytes(self, num_rows: int) -> int:
        """Logits."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How models are loaded.

    Attributes:
        mmap: the weights are mapped; otherwise they are read into anonymous memory.
        repack: the CPU backend may keep copies of weights in its own layout.
        cpu_features: in the kernel's words; see `telemetry.machine.cpu_features`.
        num_rows: the most rows of logits in one decode of a target with a drafter: draft length + 1.
        batch_tokens: the most tokens that llama.cpp computes at once (runtime.context.BATCH_TOKENS). Less
            where a price is compared with a run whose prompt is known to be shorter: memory that a batch
            never fills is never touched.
    """

    mmap: bool = True
    repack: bool = True
    cpu_features: frozenset[str] = frozenset()
    num_rows: int = 1
    batch_tokens: int = 512


@dataclass(frozen=True, slots=True)
class MemoryPrice:
    """Bytes by purpose; prices add up.

    Attributes:
        weights_bytes: pages of mapped files that every token reads. They can be dropped and read again, at
            the price of a disk access for each, so they must fit as well.
        read_weights_bytes: weights read into anonymous memory (without mmap).
        repacked_bytes: copies of weights in the layout of the CPU's kernels.
        kv_cache_bytes: keys and values.
        state_bytes: running state of recurrent layers.
        compute_bytes: activations, mask, work buffer.
        output_bytes: logits, and copies of them.
        overhead_bytes: tokenizer, graphs, tables.
        drafter_bytes: n-gram index of the conversation.
        corpus_bytes: n-gram index of texts that replies are expected to quote.
        process_bytes: interpreter and libraries, anonymous.
        library_bytes: interpreter and libraries, mapped.
        correction_bytes: what earlier loads taught; may be negative.
        idle_bytes: mapped pages that are read once while loading. They stay while nobody else needs the
            memory, so they count in what is seen after loading, and not in what is needed.
    """

    weights_bytes: int = 0
    read_weights_bytes: int = 0
    repacked_bytes: int = 0
    kv_cache_bytes: int = 0
    state_bytes: int = 0
    compute_bytes: int = 0
    output_bytes: int = 0
    overhead_bytes: int = 0
    drafter_bytes: int = 0
    corpus_bytes: int = 0
    process_bytes: int = 0
    library_bytes: int = 0
    correction_bytes: int = 0
    idle_bytes: int = 0

    def __add__(self, other: MemoryPrice) -> MemoryPrice:
        sums = {part.name: getattr(self, part.name) + getattr(other, part.name) for part in fields(self)}
        return MemoryPrice(**sums)

    @property
    def file_bytes(self) -> int:
        """The part of the need that consists of mapped files."""
        return self.weights_bytes + self.library_bytes

    @property
    def anon_bytes(self) -> int:
        """The part of the need that cannot be dropped and read again."""
        return self.needed_bytes - self.file_bytes

    @property
    def needed_bytes(self) -> int:
        """What must stay in memory for tokens to come without reading from disk: the sum of all parts."""
        return sum(self.parts().values())

    @property
    def resident_bytes(self) -> int:
        """RssAnon + RssFile after loading on a machine with plenty of memory."""
        return self.needed_bytes + self.idle_bytes

    def parts(self) -> dict[str, int]:
        """The needed parts by name, without those that are zero."""
        parts = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "idle_bytes"}
        return {name: num_bytes for name, num_bytes in parts.items() if num_bytes}


def model_price(
    facts: MemoryFacts, context_tokens: int, kv_type: KvType, options: LoadOptions
) -> MemoryPrice:
    """The price of one open model with its context."""
    features = options.cpu_features if options.repack else frozenset()
    repacked_bytes = facts.repacked_bytes(features)
    idle_bytes = facts.idle_mapped_bytes(features)
    read_bytes = facts.mapped_bytes - idle_bytes
    rows, batch_tokens = options.num_rows, options.batch_tokens
    # Large batches and copies of one row while it decodes; small batches while the machine is measured, and a
    # copy of every row, to compare wide decodes with single ones.
    decoding = (
        facts.compute_bytes(context_tokens, rows, batch_tokens),
        facts.vocab_size * _SAMPLER_BYTES_PER_LOGIT,
    )
    measuring = (
        facts.compute_bytes(context_tokens, rows, min(batch_tokens, MEASURING_BATCH_TOKENS)),
        facts.output_bytes(rows),
    )
    compute_bytes, copies_bytes = max(decoding, measuring, key=sum)
    return MemoryPrice(
        # Rows that are looked up stay mapped in any case.
        weights_bytes=(read_bytes if options.mmap else 0) + facts.lookup_bytes(context_tokens),
        # Without a mapping the originals of repacked weights are never kept.
        read_weights_bytes=0 if options.mmap else read_bytes,
        repacked_bytes=repacked_bytes,
        kv_cache_bytes=facts.kv_cache_bytes(context_tokens, kv_type),
        state_bytes=facts.state_bytes,
        compute_bytes=compute_bytes,
        output_bytes=facts.output_bytes(rows) + copies_bytes,
        overhead_bytes=facts.overhead_bytes,
        correction_bytes=facts.correction_bytes,
        idle_bytes=idle_bytes if options.mmap else 0,
    )


def process_price() -> MemoryPrice:
    """The price of homespec itself."""
    return MemoryPrice(process_bytes=PROCESS_ANON_BYTES, library_bytes=PROCESS_FILE_BYTES)


def ngram_price(context_tokens: int, corpus_bytes: int) -> MemoryPrice:
    """The price of the n-gram drafter with an index of a full context, and one of a corpus."""
    return MemoryPrice(
        drafter_bytes=NGRAM_FIXED_BYTES + context_tokens * NGRAM_BYTES_PER_TOKEN, corpus_bytes=corpus_bytes
    )
