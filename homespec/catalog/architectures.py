"""What a GGUF header leaves to the architecture: which layers keep which kind of memory.

Source: llama.cpp's `load_arch_hparams` of each architecture (src/models/*.cpp), `llama_model::create_memory`
(src/llama-model.cpp) and `n_embd_r`, `n_embd_s` (src/llama-hparams.cpp).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from homespec.catalog.gguf_header import GgufArray, GgufHeader
from homespec.errors import ModelFormatError

# Every layer keeps keys and values of the whole context, as the header's lengths say.
# fmt: off
_FULL_ATTENTION = frozenset([
    "llama", "deci", "qwen", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "phi2", "phi3", "phimoe", "gemma",
    "starcoder", "starcoder2", "stablelm", "falcon", "gpt2", "gptneox", "mpt", "bloom", "baichuan",
    "refact", "codeshell", "orion", "internlm2", "minicpm", "xverse", "command-r", "dbrx", "olmo", "olmoe",
    "openelm", "arctic", "deepseek", "chatglm", "glm4", "glm4moe", "bitnet", "nemotron", "exaone",
    "granite", "granitemoe", "bailingmoe", "bailingmoe2", "dots1", "arcee", "ernie4_5", "ernie4_5-moe",
    "hunyuan-dense", "hunyuan-moe", "smollm3", "seed_oss", "apertus", "mistral3", "deepseek2", "qwen2vl",
    "qwen3vl",
])
# fmt: on


@dataclass(frozen=True, slots=True)
class _Window:
    """Sliding-window layers by default: all but each `period`-th."""

    period: int
    dense_first: bool = False
    default_tokens: int = 0
    fixed_tokens: int = 0
    only_layers: int = 0  # the architecture uses windows only at this depth; 0 is any


_WINDOWS: Mapping[str, _Window] = {
    "gemma2": _Window(2, default_tokens=4096),
    "gemma3": _Window(6),
    "gemma3n": _Window(5),
    "gemma4": _Window(6),
    "cohere2": _Window(4),
    "olmo2": _Window(4),
    "exaone4": _Window(4, default_tokens=4096, only_layers=64),
    "gpt-oss": _Window(2),
    "llama4": _Window(4, default_tokens=8192, fixed_tokens=8192),
    "smallthinker": _Window(4, dense_first=True, fixed_tokens=4096),
    "plamo3": _Window(8),
    "afmoe": _Window(4),
    "mellum": _Window(4),
}
_RECURRENT = frozenset(["mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"])
# Hybrids: a layer without KV heads keeps a running state instead.
_HYBRID = frozenset(["jamba", "granitehybrid", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe", "plamo2"])
_HYBRID_BY_INTERVAL = frozenset(["qwen3next", "qwen35", "qwen35moe"])
_HYBRID_EVERY_LAYER = frozenset(["falcon-h1"])

_MAX_LAYERS = 4096
_GEMMA3N_KV_LAYERS = 20


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """What the layers of a model keep between decodes.

    Attributes:
        is_known: whether the architecture is one whose layout is known; otherwise the numbers are an upper
            bound.
        num_layers: that take part in ordinary decoding.
        full_kv_elements: of keys and values per token, over all layers that keep the whole context.
        window_kv_elements: the same over the sliding-window layers.
        window_tokens: length of the sliding window; 0 where there is none.
        state_bytes: running state of recurrent layers, whatever the context.
    """

    is_known: bool
    num_layers: int
    full_kv_elements: int
    window_kv_elements: int
    window_tokens: int
    state_bytes: int


class Keys:
    """The numbers of a header under its architecture's prefix, one or one per layer."""

    def __init__(self, header: GgufHeader, num_layers: int = 1) -> None:
        self._header = header
        self._num_layers = num_layers

    def number(self, name: str, default: int = 0) -> int:
        """The number, or the largest of an array."""
        return max(self.per_layer(name, default), default=default)

    def per_layer(self, name: str, default: int = 0) -> Sequence[int]:
        """The number for each layer; an array that is too short repeats its largest element."""
        key = f"{self._header.architecture}.{name}"
        value = self._header.metadata.get(key)
        if isinstance(value, GgufArray):
            numbers = list(value.integers()) if value.num_elements <= _MAX_LAYERS else []
            numbers += [max(numbers, default=default)] * (self._num_layers - len(numbers))
            return [max(0, number) for number in numbers[: self._num_layers]]
        number = self._header.integer(key)
        return [default if number is None else max(0, number)] * self._num_layers

    def has(self, name: str) -> bool:
        """Whether the header has the key."""
        return f"{self._header.architecture}.{name}" in self._header.metadata

    def is_array(self, name: str) -> bool:
        """Whether the header has the key, with an array."""
        return isinstance(self._header.metadata.get(f"{self._header.architecture}.{name}"), GgufArray)


def network_width(header: GgufHeader) -> int:
    """The embedding length; where the header does not say it, the longest row of any matrix bounds it."""
    rows = (tensor.shape[0] for tensor in header.tensors if len(tensor.shape) > 1)
    return Keys(header).number("embedding_length") or max(rows, default=0)


def memory_layout(header: GgufHeader) -> MemoryLayout:
    """Reads what a model's layers keep.

    Raises:
        ModelFormatError: the header has an impossible number of layers.
    """
    num_layers = _count_layers(header)
    keys = Keys(header, num_layers)
    architecture = header.architecture
    is_recurrent = _recurrent_layers(architecture, keys, num_layers)
    elements = _kv_elements(header, keys, num_layers)
    windows, window_tokens = _window_layers(architecture, keys, num_layers)
    kv_layers = _layers_with_own_kv(architecture, keys, num_layers)
    full = window = 0
    for layer in range(kv_layers):
        if is_recurrent[layer] and architecture not in _HYBRID_EVERY_LAYER:
            continue
        in_window = elements[layer][1] if windows[layer] else 0
        window += in_window
        full += 0 if windows[layer] else elements[layer][0]
    known = (
        _FULL_ATTENTION | _WINDOWS.keys() | _RECURRENT | _HYBRID | _HYBRID_BY_INTERVAL | _HYBRID_EVERY_LAYER
    )
    return MemoryLayout(
        is_known=architecture in known,
        num_layers=num_layers,
        full_kv_elements=full,
        window_kv_elements=window,
        window_tokens=window_tokens,
        state_bytes=sum(is_recurrent) * _state_elements(architecture, keys) * 4,
    )


def _count_layers(header: GgufHeader) -> int:
    keys = Keys(header)
    blocks = {tensor.name.split(".")[1] for tensor in header.tensors if tensor.name.startswith("blk.")}
    num_layers = keys.number("block_count", len(blocks))
    # Layers that predict further tokens (MTP) take no part in ordinary decoding.
    num_layers -= min(num_layers, keys.number("nextn_predict_layers"))
    if num_layers > _MAX_LAYERS:
        raise ModelFormatError(
            f"{header.path.name} claims {num_layers:,} layers; at most {_MAX_LAYERS:,} are possible.",
            hint="Download the file again, or get another conversion of the model.",
        )
    return num_layers


def _kv_elements(header: GgufHeader, keys: Keys, num_layers: int) -> list[tuple[int, int]]:
    """Elements of keys and values per token for each layer: with full attention, with a sliding window."""
    heads = keys.per_layer("attention.head_count")
    # Without the key every head has its own keys and values.
    kv_heads = keys.per_layer("attention.head_count_kv") if keys.has("attention.head_count_kv") else heads
    width = network_width(header)
    head_length = width // max(1, max(heads, default=1))
    key_length = keys.number("attention.key_length", head_length)
    value_length = keys.number("attention.value_length", head_length)
    if keys.has("attention.key_length_mla"):
        value_length = 0  # multi-head latent attention keeps one compressed vector (is_mla in llama-kv-cache)
    window_length = keys.number("attention.key_length_swa", key_length)
    window_length += keys.number("attention.value_length_swa", value_length)
    if not any(heads) and header.architecture not in _RECURRENT:
        return [(2 * width, 2 * width)] * num_layers
    return [(count * (key_length + value_length), count * window_length) for count in kv_heads]


def _window_layers(architecture: str, keys: Keys, num_layers: int) -> tuple[list[bool], int]:
    """Which layers have a sliding window, and its length."""
    none = [False] * num_layers
    window = _WINDOWS.get(architecture)
    # Other architectures may name a window too; llama.cpp keeps the whole context for them (phi3, qwen2).
    if window is None or (window.only_layers and num_layers != window.only_layers):
        return none, 0
    tokens = keys.number("attention.sliding_window", window.default_tokens)
    if tokens == 0:
        return none, 0
    tokens = window.fixed_tokens or tokens
    if keys.is_array("attention.sliding_window_pattern"):
        return [flag != 0 for flag in keys.per_layer("attention.sliding_window_pattern")], tokens
    period = keys.number("attention.sliding_window_pattern", window.period)
    if period == 0:
        return [True] * num_layers, tokens
    full_place = 0 if window.dense_first else period - 1
    return [layer % period != full_place for layer in range(num_layers)], tokens


def _layers_with_own_kv(architecture: str, keys: Keys, num_layers: int) -> int:
    """Later layers may attend to an earlier layer's keys and values (n_layer_kv_from_start)."""
    if architecture == "gemma3n":
        return min(num_layers, _GEMMA3N_KV_LAYERS)
    if architecture == "gemma4":
        return max(0, num_layers - keys.number("attention.shared_kv_layers"))
    return num_layers


def _recurrent_layers(architecture: str, keys: Keys, num_layers: int) -> list[bool]:
    if architecture in _RECURRENT | _HYBRID_EVERY_LAYER:
        return [True] * num_layers
    if architecture in _HYBRID:
        return [count == 0 for count in keys.per_layer("attention.head_count_kv")]
    if architecture in _HYBRID_BY_INTERVAL:
        if keys.is_array("attention.recurrent_layers"):
            return [flag != 0 for flag in keys.per_layer("attention.recurrent_layers")]
        interval = max(1, keys.number("full_attention_interval", 4))
        return [(layer + 1) % interval != 0 for layer in range(num_layers)]
    return [False] * num_layers


def _state_elements(architecture: str, keys: Keys) -> int:
    """Elements of one recurrent layer's state (float32): n_embd_r + n_embd_s."""
    width = keys.number("embedding_length")
    if head_length := keys.number("wkv.head_size"):
        return width * keys.number("token_shift_count", 2) + width * head_length
    if cache_length := keys.number("shortconv.l_cache"):
        return width * (cache_length - 1)
    inner, state = keys.number("ssm.inner_size"), keys.number("ssm.state_size")
    groups = keys.number("ssm.group_count")
    return max(0, keys.number("ssm.conv_kernel") - 1) * (inner + 2 * groups * state) + state * inner
