"""Model facts with prices made up at will, for the planner."""

from __future__ import annotations

from dataclasses import dataclass

from homespec.planner.prices import MIB


@dataclass(frozen=True)
class MadeUpFacts:
    """Implements `planner.prices.MemoryFacts` with straight lines."""

    name: str = "made-up.gguf"
    is_known: bool = True
    training_context_tokens: int = 32_768
    vocab_size: int = 1000
    state_bytes: int = 0
    mapped_bytes: int = 1000 * MIB
    overhead_bytes: int = 50 * MIB
    correction_bytes: int = 0
    copied_bytes: int = 0
    kv_bytes_per_token: int = 28_672
    compute_bytes_per_token: int = 1024
    made_from: str | None = None

    def lookup_bytes(self, context_tokens: int) -> int:
        return 0

    def repacked_bytes(self, cpu_features: frozenset[str]) -> int:
        return self.copied_bytes if cpu_features else 0

    def idle_mapped_bytes(self, cpu_features: frozenset[str]) -> int:
        return self.repacked_bytes(cpu_features)

    def kv_cache_bytes(self, context_tokens: int, kv_type: str) -> int:
        part = {"f16": 1.0, "q8_0": 0.53125, "q4_0": 0.28125}[kv_type]
        return int(-(-context_tokens // 256) * 256 * self.kv_bytes_per_token * part)

    def compute_bytes(self, context_tokens: int, num_rows: int, batch_tokens: int) -> int:
        return context_tokens * self.compute_bytes_per_token + num_rows * self.vocab_size * 4

    def output_bytes(self, num_rows: int) -> int:
        return num_rows * self.vocab_size * 4
