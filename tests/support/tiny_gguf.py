"""Tiny GGUF models made on the spot: real files that llama.cpp loads and decodes, half a megabyte each.

Two layers, F32, llama architecture, random weights from a fixed seed. The vocabulary is SentencePiece-like:
byte tokens (so any text tokenizes and comes back unchanged), printable ASCII, a few longer pieces, and the
ChatML control tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

EMBEDDING_LENGTH = 64
NUM_LAYERS = 2
NUM_HEADS = 4
NUM_KV_HEADS = 2
FEED_FORWARD_LENGTH = 128
SSM_CONV_KERNEL = 4
SSM_STATE_SIZE = 16
SSM_TIME_STEP_RANK = 4
CONTEXT_TOKENS = 512
BOS_ID = 1
EOS_ID = 2
"""`</s>`; `<|im_end|>` ends a turn as well."""

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

# Every prefix of a longer piece is a piece too: SentencePiece merges two neighbours at a time.
_TARGET_PIECES = ["th", "the", "an", "and", "in", "ing", "re", "ret", "retu", "return", "de", "def", "▁th"]
_STRANGER_PIECES = ["ab", "abc", "xy", "xyz"]


@dataclass(frozen=True)
class Vocabulary:
    """Parallel lists, indexed by token id."""

    tokens: list[bytes]
    scores: list[float]
    types: list[int]


Tensors = dict[str, npt.NDArray[np.float32]]


def target(path: Path) -> Path:
    """Writes the target model."""
    vocabulary = _vocabulary(_TARGET_PIECES, printable=True)
    return _write(path, "tiny-target", vocabulary, _weights(len(vocabulary.tokens), seed=1))


def near_copy(path: Path, noise: float = 0.05) -> Path:
    """Writes a draft model: the target's vocabulary, its weights changed by `noise` standard deviations."""
    vocabulary = _vocabulary(_TARGET_PIECES, printable=True)
    weights = _weights(len(vocabulary.tokens), seed=1)
    other = _weights(len(vocabulary.tokens), seed=2)
    keep = (1 - noise**2) ** 0.5  # so that the variance stays what it is
    matrices = [name for name, array in weights.items() if array.ndim == 2]
    mixed = weights | {name: _f32(keep * weights[name] + noise * other[name]) for name in matrices}
    return _write(path, "tiny-near-copy", vocabulary, mixed)


def stranger(path: Path) -> Path:
    """Writes a model with another vocabulary, smaller and in another order, and other weights."""
    vocabulary = _vocabulary(_STRANGER_PIECES, printable=False)
    return _write(path, "tiny-stranger", vocabulary, _weights(len(vocabulary.tokens), seed=3))


def recurrent(path: Path) -> Path:
    """Writes a Mamba model with the target's vocabulary: its state cannot be rolled back."""
    vocabulary = _vocabulary(_TARGET_PIECES, printable=True)
    writer = gguf.GGUFWriter(path, "mamba")
    writer.add_head_count(0)
    writer.add_feed_forward_length(0)
    writer.add_ssm_conv_kernel(SSM_CONV_KERNEL)
    writer.add_ssm_inner_size(2 * EMBEDDING_LENGTH)
    writer.add_ssm_state_size(SSM_STATE_SIZE)
    writer.add_ssm_time_step_rank(SSM_TIME_STEP_RANK)
    return _finish(writer, path, "tiny-recurrent", vocabulary, _mamba_weights(len(vocabulary.tokens)))


def _mamba_weights(num_tokens: int) -> Tensors:
    rng = np.random.default_rng(4)
    width, inner = EMBEDDING_LENGTH, 2 * EMBEDDING_LENGTH

    def matrix(rows: int, columns: int) -> npt.NDArray[np.float32]:
        return _f32(rng.standard_normal((rows, columns)) / columns**0.5)

    tensors: Tensors = {
        "token_embd.weight": matrix(num_tokens, width),
        "output_norm.weight": np.ones(width, np.float32),
        "output.weight": matrix(num_tokens, width) * 3,
    }
    for layer in range(NUM_LAYERS):
        block = f"blk.{layer}"
        tensors |= {
            f"{block}.attn_norm.weight": np.ones(width, np.float32),
            f"{block}.ssm_in.weight": matrix(2 * inner, width),
            f"{block}.ssm_conv1d.weight": matrix(inner, SSM_CONV_KERNEL),
            f"{block}.ssm_conv1d.bias": np.zeros(inner, np.float32),
            f"{block}.ssm_x.weight": matrix(SSM_TIME_STEP_RANK + 2 * SSM_STATE_SIZE, inner),
            f"{block}.ssm_dt.weight": matrix(inner, SSM_TIME_STEP_RANK),
            f"{block}.ssm_dt.bias": np.zeros(inner, np.float32),
            f"{block}.ssm_a": -np.ones((inner, SSM_STATE_SIZE), np.float32),
            f"{block}.ssm_d": np.ones(inner, np.float32),
            f"{block}.ssm_out.weight": matrix(width, inner),
        }
    return tensors


def _vocabulary(pieces: list[str], *, printable: bool) -> Vocabulary:
    entries: list[tuple[str, float, gguf.TokenType]] = [
        ("<unk>", 0.0, gguf.TokenType.UNKNOWN),
        ("<s>", 0.0, gguf.TokenType.CONTROL),
        ("</s>", 0.0, gguf.TokenType.CONTROL),
    ]
    entries += [(f"<0x{byte:02X}>", 0.0, gguf.TokenType.BYTE) for byte in range(256)]
    characters = [chr(code) for code in range(0x21, 0x7F)] if printable else list("abcxyz")
    for rank, piece in enumerate(["▁", *characters, *pieces]):  # a higher score merges first
        entries.append((piece, -float(rank), gguf.TokenType.NORMAL))
    entries += [(name, 0.0, gguf.TokenType.CONTROL) for name in ("<|im_start|>", "<|im_end|>")]
    return Vocabulary(
        tokens=[text.encode() for text, _, _ in entries],
        scores=[score for _, score, _ in entries],
        types=[int(kind) for _, _, kind in entries],
    )


def _f32(array: npt.ArrayLike) -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(array, dtype=np.float32)


def _weights(num_tokens: int, seed: int) -> Tensors:
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, scale: float = 1.0) -> npt.NDArray[np.float32]:
        return _f32(rng.standard_normal((rows, columns)) * scale / columns**0.5)

    width, kv_width = EMBEDDING_LENGTH, EMBEDDING_LENGTH * NUM_KV_HEADS // NUM_HEADS
    tensors: Tensors = {
        "token_embd.weight": matrix(num_tokens, width, scale=width**0.5),
        "output_norm.weight": np.ones(width, np.float32),
        # Logits with a standard deviation of about 3: neither flat nor certain.
        "output.weight": matrix(num_tokens, width, scale=3.0),
    }
    for layer in range(NUM_LAYERS):
        block = f"blk.{layer}"
        tensors |= {
            f"{block}.attn_norm.weight": np.ones(width, np.float32),
            f"{block}.attn_q.weight": matrix(width, width),
            f"{block}.attn_k.weight": matrix(kv_width, width),
            f"{block}.attn_v.weight": matrix(kv_width, width, scale=2.0),
            f"{block}.attn_output.weight": matrix(width, width, scale=2.0),
            f"{block}.ffn_norm.weight": np.ones(width, np.float32),
            f"{block}.ffn_gate.weight": matrix(FEED_FORWARD_LENGTH, width),
            f"{block}.ffn_up.weight": matrix(FEED_FORWARD_LENGTH, width),
            f"{block}.ffn_down.weight": matrix(width, FEED_FORWARD_LENGTH, scale=2.0),
        }
    return tensors


def _write(path: Path, name: str, vocabulary: Vocabulary, tensors: Tensors) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_head_count(NUM_HEADS)
    writer.add_head_count_kv(NUM_KV_HEADS)
    writer.add_feed_forward_length(FEED_FORWARD_LENGTH)
    writer.add_rope_dimension_count(EMBEDDING_LENGTH // NUM_HEADS)
    return _finish(writer, path, name, vocabulary, tensors)


def _finish(writer: gguf.GGUFWriter, path: Path, name: str, vocabulary: Vocabulary, tensors: Tensors) -> Path:
    writer.add_name(name)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(EMBEDDING_LENGTH)
    writer.add_block_count(NUM_LAYERS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(vocabulary.tokens))

    writer.add_tokenizer_model("llama")
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_scores(vocabulary.scores)
    writer.add_token_types(vocabulary.types)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(BOS_ID)
    writer.add_eos_token_id(EOS_ID)
    writer.add_eot_token_id(len(vocabulary.tokens) - 1)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    # Without the leading space, text survives tokenizing and detokenizing unchanged.
    writer.add_add_space_prefix(False)
    writer.add_chat_template(CHAT_TEMPLATE)

    for tensor_name, array in tensors.items():
        writer.add_tensor(tensor_name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
