"""Tiny models of every architecture that can be reduced, with the kind of vocabulary that goes with it.

Random F32 weights from a fixed seed. llama and gemma3 have a SentencePiece-like vocabulary, qwen2 and qwen3 a
byte-level one with merges; all have control and unused tokens.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, TokenType

ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3")
WIDTH, NUM_HEADS, NUM_KV_HEADS, HIDDEN = 64, 4, 2, 96
HEAD_LENGTH = WIDTH // NUM_HEADS
CONTEXT_TOKENS = 512
WINDOW_TOKENS = 32
WORDS = ("the", "and", "ing", "return", "def", "for", "import", "class", "with", "print", "from", "not")
MORE_WORDS = ("apple", "plum", "pear", "cherry", "lemon", "melon", "grape", "orange", "quince", "fig")

_Tokens = list[tuple[str, TokenType]]


def write(
    path: Path,
    architecture: str,
    *,
    num_layers: int = 3,
    tied: bool = True,
    embedding_type: GGMLQuantizationType = GGMLQuantizationType.F32,
    seed: int = 1,
    num_padding: int = 5,
    silent_layers: tuple[int, ...] = (),
) -> Path:
    """Writes a model.

    Args:
        path: where.
        architecture: one of `ARCHITECTURES`.
        num_layers: how deep.
        tied: whether the output shares the embedding's weights.
        embedding_type: number format of embedding and output.
        seed: of the weights.
        num_padding: how many unused tokens end the vocabulary.
        silent_layers: those that add nothing to the residual stream.
    """
    byte_level = architecture.startswith("qwen")
    tokens, merges = _byte_level_tokens() if byte_level else (_pieces(), [])
    tokens += [(name, TokenType.CONTROL) for name in ("<|end|>", "<|im_start|>", "<|im_end|>")]
    tokens += [(f"[PAD{number}]", TokenType.UNUSED) for number in range(num_padding)]
    names = [text for text, _ in tokens]
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(f"tiny-{architecture}")
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(num_layers)
    writer.add_head_count(NUM_HEADS)
    writer.add_head_count_kv(NUM_KV_HEADS)
    writer.add_feed_forward_length([HIDDEN] * num_layers if architecture == "llama" else HIDDEN)
    writer.add_layer_norm_rms_eps(1e-5)
    if architecture == "gemma3":
        writer.add_key_length(HEAD_LENGTH)
        writer.add_value_length(HEAD_LENGTH)
        writer.add_sliding_window(WINDOW_TOKENS)
    else:
        writer.add_rope_dimension_count(HEAD_LENGTH)
        writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2" if byte_level else "llama")
    writer.add_tokenizer_pre("qwen2" if byte_level else "default")
    writer.add_token_list(names)
    writer.add_token_types([int(kind) for _, kind in tokens])
    if byte_level:
        writer.add_token_merges(merges)
    else:
        writer.add_token_scores([-float(rank) for rank in range(len(tokens))])
        writer.add_unk_token_id(names.index("<unk>"))
        writer.add_add_space_prefix(False)
    writer.add_bos_token_id(names.index("<|im_start|>"))
    writer.add_eos_token_id(names.index("<|im_end|>"))
    writer.add_pad_token_id(names.index("<|end|>"))
    writer.add_add_bos_token(False)
    silent = {f"blk.{layer}.{part}.weight" for layer in silent_layers for part in ("attn_output", "ffn_down")}
    for name, array in _weights(architecture, num_layers, len(tokens), seed, tied).items():
        if name in silent:
            array[:] = 0
        kind = embedding_type if name in ("token_embd.weight", "output.weight") else GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _pieces() -> _Tokens:
    tokens: _Tokens = [("<unk>", TokenType.UNKNOWN)]
    tokens += [(f"<0x{byte:02X}>", TokenType.BYTE) for byte in range(256)]
    texts = ["▁", *(chr(code) for code in range(0x21, 0x7F))]
    texts += [word[:end] for word in WORDS + MORE_WORDS for end in range(2, len(word) + 1)]
    return tokens + [(text, TokenType.NORMAL) for text in dict.fromkeys(texts)]


def _byte_level_tokens() -> tuple[_Tokens, list[str]]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [chr(0x100 + number) for number in range(256 - len(printable))]
    texts = [*map(chr, printable), *others]
    merges: list[str] = []
    for word in WORDS + MORE_WORDS:
        for end in range(2, len(word) + 1):
            merges.append(f"{word[: end - 1]} {word[end - 1]}")
            texts.append(word[:end])
    return [(text, TokenType.NORMAL) for text in dict.fromkeys(texts)], list(dict.fromkeys(merges))


def _weights(
    architecture: str, num_layers: int, num_tokens: int, seed: int, tied: bool
) -> dict[str, npt.NDArray[np.float32]]:
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, scale: float = 1.0) -> npt.NDArray[np.float32]:
        return np.asarray(rng.standard_normal((rows, columns)) * scale / columns**0.5, dtype=np.float32)

    def ones(length: int) -> npt.NDArray[np.float32]:
        return np.ones(length, np.float32)

    kv_width = HEAD_LENGTH * NUM_KV_HEADS
    tensors = {"token_embd.weight": matrix(num_tokens, WIDTH, 3), "output_norm.weight": ones(WIDTH)}
    if not tied:
        tensors["output.weight"] = matrix(num_tokens, WIDTH, 3)
    for layer in range(num_layers):
        block = {
            "attn_norm.weight": ones(WIDTH),
            "attn_q.weight": matrix(WIDTH, WIDTH),
            "attn_k.weight": matrix(kv_width, WIDTH),
            "attn_v.weight": matrix(kv_width, WIDTH, 2),
            "attn_output.weight": matrix(WIDTH, WIDTH, 2),
            "ffn_norm.weight": ones(WIDTH),
            "ffn_gate.weight": matrix(HIDDEN, WIDTH),
            "ffn_up.weight": matrix(HIDDEN, WIDTH),
            "ffn_down.weight": matrix(WIDTH, HIDDEN, 2),
        }
        if architecture == "qwen2":
            block |= {f"attn_{name}.bias": matrix(1, kv_width)[0] for name in ("k", "v")}
            block["attn_q.bias"] = matrix(1, WIDTH)[0]
        if architecture in ("qwen3", "gemma3"):
            block |= {f"attn_{name}_norm.weight": ones(HEAD_LENGTH) for name in ("q", "k")}
        if architecture == "gemma3":
            block |= {f"post_{name}_norm.weight": ones(WIDTH) for name in ("attention", "ffw")}
        tensors |= {f"blk.{layer}.{name}": array for name, array in block.items()}
    return tensors
