"""What a model costs in memory, from its GGUF header alone.

Every price says what llama.cpp allocates and touches for one sequence on a CPU; each names its source.
Prices of known architectures were compared with llama.cpp's own buffer sizes; for unknown ones they are an
upper bound: never missing, never zero.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from homespec.catalog.architectures import Keys, memory_layout, network_width
from homespec.catalog.gguf_header import GgufHeader
from homespec.catalog.repack import MatrixGroup, group_matrices, is_repacked
from homespec.catalog.trimmed import read_trim
from homespec.errors import ConfigError, ModelFormatError
from homespec.runtime.trim_layout import SOURCE_NAME

MIB = 1 << 20

# KV type -> elements and bytes of a block.
_KV_BLOCKS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"f16": (1, 2), "q8_0": (32, 34), "q4_0": (32, 18)}
)
# The most tokens that llama.cpp computes at once; runtime.context.BATCH_TOKENS.
_BATCH_TOKENS = 512
# llama_context pads the context (src/llama-context.cpp), the iswa cache pads its window.
_CELL_PADDING = 256
_FLOAT_BYTES = 4
_MASK_BYTES = 2  # the attention mask is f16 where flash attention is on, which it is on the CPU
# Measured: RssAnon after loading SmolLM2 (49k tokens, 49k merges), Qwen2.5 (152k, 151k), Gemma 3 (262k, 0).
_TOKEN_BYTES = 158
_MERGE_BYTES = 150
# Measured: graphs, scheduler, cell table and small buffers of a model with its context.
_CONTEXT_BYTES = 4 * MIB
# Per token of a trimmed draft model's source: the map of ids, a row of logits on the target's ids, and the
# sampler's copies of it (planner.prices).
_SOURCE_TOKEN_BYTES = 4 + 4 + 24


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The numbers of a model that its prices follow from.

    Attributes:
        name: the file's name.
        architecture: as GGUF names it.
        is_known: whether its memory layout is known; prices are upper bounds otherwise.
        quantization: number format of most of the weights.
        num_layers: that take part in ordinary decoding.
        embedding_length, num_heads, vocab_size: of the network.
        training_context_tokens: the longest context it was trained on; 0 where the file does not say.
        num_experts: 0 unless a mixture of experts.
        has_chat_template: whether the file carries one.
        full_kv_elements, window_kv_elements: keys and values per token, over all layers of that kind.
        window_tokens: length of the sliding window; 0 where no layer has one.
        state_bytes: running state of recurrent layers.
        activation_elements: per token of a batch, the most that is alive at once.
        operand_elements: per token of a batch, the widest operand of a multiplication.
        data_bytes: the part of the file behind its header that llama.cpp maps.
        tensor_bytes: number format -> bytes of the tensors in it.
        matrices: what some CPUs repack.
        num_tokens, num_merges: entries of the tokenizer.
        num_source_tokens: size of the vocabulary that a trimmed draft model reads; 0 for other models.
        source_rows_bytes: the embedding rows that it reads them with.
        made_from: the model that this one was reduced from, or None.
        correction_bytes: what an earlier load of this architecture and format taught (see `correction_key`).
    """

    name: str
    architecture: str
    is_known: bool
    quantization: str
    num_layers: int
    embedding_length: int
    num_heads: int
    vocab_size: int
    training_context_tokens: int
    num_experts: int
    has_chat_template: bool
    full_kv_elements: int
    window_kv_elements: int
    window_tokens: int
    state_bytes: int
    activation_elements: int
    operand_elements: int
    data_bytes: int
    tensor_bytes: Mapping[str, int]
    matrices: tuple[MatrixGroup, ...]
    num_tokens: int
    num_merges: int
    num_source_tokens: int = 0
    source_rows_bytes: int = 0
    made_from: str | None = None
    correction_bytes: int = 0

    @property
    def keeps_running_state(self) -> bool:
        """Whether a part of its memory cannot be rolled back token by token."""
        return self.state_bytes > 0

    @property
    def correction_key(self) -> str:
        """Under which corrections of the prices are stored."""
        return f"{self.architecture}-{self.quantization}"

    @property
    def mapped_bytes(self) -> int:
        """Pages of the mapped file: llama.cpp maps it, reads all of it, and unmaps the header again."""
        return -(-self.data_bytes // mmap.PAGESIZE) * mmap.PAGESIZE

    def repacked_bytes(self, cpu_features: frozenset[str]) -> int:
        """The second copy of weights that the CPU backend keeps, in anonymous memory."""
        return sum(group.num_bytes for group in self.matrices if is_repacked(group, cpu_features))

    def idle_mapped_bytes(self, cpu_features: frozenset[str]) -> int:
        """Pages of the mapped file that are read once while loading: the originals of repacked weights."""
        groups = (group for group in self.matrices if is_repacked(group, cpu_features))
        return sum(group.num_bytes - group.num_tied_bytes for group in groups)

    def kv_cache_bytes(self, context_tokens: int, kv_type: str) -> int:
        """The KV cache; it is cleared, and so touched, when it is made (src/llama-kv-cache*.cpp).

        Raises:
            ConfigError: there is no such type.
        """
        if kv_type not in _KV_BLOCKS:
            raise ConfigError(
                f"{kv_type!r} is not a type of KV cache.", hint=f"Choose one of {', '.join(_KV_BLOCKS)}."
            )
        block_elements, block_bytes = _KV_BLOCKS[kv_type]
        elements = self._cells(context_tokens) * self.full_kv_elements
        elements += self._window_cells(context_tokens) * self.window_kv_elements
        return -(-elements // block_elements) * block_bytes

    def compute_bytes(self, context_tokens: int, num_rows: int, batch_tokens: int) -> int:
        """Activations, attention mask and work buffer of the largest batch, as far as they are touched.

        Graph memory is reused from operator to operator, so this is the larger of two peaks: within a layer,
        with all tokens of a batch, and at the end, with the logits of the rows in use. Rows that are
        reserved but never asked for are never touched.

        Args:
            context_tokens: size of the KV cache.
            num_rows: the most rows of logits that one decode asks for.
            batch_tokens: the most tokens that are computed at once.
        """
        batch_tokens = min(batch_tokens, self._cells(context_tokens))
        cells = self._cells(context_tokens)
        mask_cells = cells + (self._window_cells(context_tokens) if self.window_kv_elements else 0)
        in_layer = batch_tokens * (self.activation_elements * _FLOAT_BYTES + mask_cells * _MASK_BYTES)
        if not self.is_known:
            # Attention scores and their softmax, should the architecture not use flash attention.
            in_layer += batch_tokens * cells * self.num_heads * 2 * _FLOAT_BYTES
        row_elements = self.vocab_size + 2 * self.embedding_length
        at_end = (num_rows * row_elements + batch_tokens * 2 * self.embedding_length) * _FLOAT_BYTES
        # ggml_graph_plan's work buffer: the batch in the format that the weights are multiplied with.
        work = batch_tokens * self.operand_elements * 2
        return max(in_layer, at_end) + work

    def output_bytes(self, num_rows: int) -> int:
        """Logits as llama.cpp hands them out (llama_context::output_reserve)."""
        return num_rows * self.vocab_size * _FLOAT_BYTES

    @property
    def overhead_bytes(self) -> int:
        """Tokenizer, graphs and tables."""
        tokenizer = self.num_tokens * _TOKEN_BYTES + self.num_merges * _MERGE_BYTES
        embeddings = _BATCH_TOKENS * self.embedding_length * _FLOAT_BYTES if self.num_source_tokens else 0
        return tokenizer + self.num_source_tokens * _SOURCE_TOKEN_BYTES + embeddings + _CONTEXT_BYTES

    def lookup_bytes(self, context_tokens: int) -> int:
        """Mapped pages of a trimmed draft model's embedding rows: one per token of the history at most."""
        return min(self.source_rows_bytes, context_tokens * mmap.PAGESIZE)

    def _cells(self, context_tokens: int) -> int:
        return -(-context_tokens // _CELL_PADDING) * _CELL_PADDING

    def _window_cells(self, context_tokens: int) -> int:
        return self._cells(min(self._cells(context_tokens), self.window_tokens + _BATCH_TOKENS))


def model_facts(header: GgufHeader) -> ModelFacts:
    """Reads a model's facts.

    Raises:
        ModelFormatError: the header holds no language model, or only a part of one.
    """
    _check_whole(header)
    layout = memory_layout(header)
    keys = Keys(header, max(1, layout.num_layers))
    embedding_length = network_width(header)
    tensor_bytes: dict[str, int] = {}
    for tensor in header.tensors:
        tensor_bytes[tensor.type_name] = tensor_bytes.get(tensor.type_name, 0) + tensor.num_bytes
    tokens = header.array("tokenizer.ggml.tokens")
    merges = header.array("tokenizer.ggml.merges")
    num_tokens = tokens.num_elements if tokens else 0
    activations, operand = _batch_elements(keys, embedding_length)
    trim = read_trim(header)
    source_rows_bytes = trim.rows_bytes if trim else 0
    return ModelFacts(
        name=header.path.name,
        architecture=header.architecture,
        is_known=layout.is_known,
        quantization=max(tensor_bytes, key=lambda name: tensor_bytes[name]),
        num_layers=layout.num_layers,
        embedding_length=embedding_length,
        num_heads=keys.number("attention.head_count"),
        vocab_size=num_tokens or keys.number("vocab_size", _rows(header, "token_embd.weight")),
        training_context_tokens=keys.number("context_length"),
        num_experts=keys.number("expert_count"),
        has_chat_template=header.text("tokenizer.chat_template") is not None,
        full_kv_elements=layout.full_kv_elements,
        window_kv_elements=layout.window_kv_elements,
        window_tokens=layout.window_tokens,
        state_bytes=layout.state_bytes,
        activation_elements=activations,
        operand_elements=operand,
        data_bytes=header.file_bytes - header.data_offset - source_rows_bytes,
        tensor_bytes=MappingProxyType(tensor_bytes),
        matrices=group_matrices(header.tensors),
        num_tokens=num_tokens,
        num_merges=merges.num_elements if merges else 0,
        num_source_tokens=trim.num_source_tokens if trim else 0,
        source_rows_bytes=source_rows_bytes,
        made_from=header.text(SOURCE_NAME),
    )


def _check_whole(header: GgufHeader) -> None:
    if not header.architecture or not header.tensors:
        raise ModelFormatError(
            f"{header.path.name} holds no model: it has {len(header.tensors)} tensors and "
            f"{header.architecture or 'no'} architecture.",
            hint="Name the file with the weights.",
        )
    num_parts = header.integer("split.count") or 1
    if num_parts > 1:
        raise ModelFormatError(
            f"{header.path.name} is one of {num_parts} parts of a model; a whole file is needed.",
            hint="Join the parts with llama.cpp's `llama-gguf-split --merge`.",
        )


def _rows(header: GgufHeader, name: str) -> int:
    return next(
        (tensor.shape[1] for tensor in header.tensors if tensor.name == name and len(tensor.shape) > 1), 0
    )


def _batch_elements(keys: Keys, width: int) -> tuple[int, int]:
    """Elements per token alive at once in the costliest part of a layer, and the widest operand.

    Residual, normed input, output and one spare of the network's width are alive beside what each part
    makes: gate, up and their product; queries before and after rotation, keys, values and the result.
    """
    hidden = keys.number("feed_forward_length")
    expert_hidden = keys.number("expert_feed_forward_length")
    num_used = keys.number("expert_used_count")
    shared = keys.number(
        "expert_shared_feed_forward_length", expert_hidden * keys.number("expert_shared_count")
    )
    heads = keys.number("attention.head_count")
    head_length = width // max(1, heads)
    key_length = keys.number("attention.key_length", head_length)
    queries = heads * key_length
    kv_heads = keys.number("attention.head_count_kv", heads)
    key_values = kv_heads * (key_length + keys.number("attention.value_length", head_length))
    inner = keys.number("ssm.inner_size")
    parts = (
        3 * hidden,
        # Without its own length an expert is as wide as the feed-forward length says.
        num_used * (3 * (expert_hidden or hidden) + 2 * width) + 3 * shared + 2 * keys.number("expert_count"),
        3 * queries + 2 * key_values,
        6 * inner,
    )
    return max(parts) + 4 * width, max(hidden, num_used * (expert_hidden or hidden), queries, inner, width)
