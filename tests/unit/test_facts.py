"""Facts and prices from headers, against what llama.cpp reported for the same models."""

from __future__ import annotations

import array
from pathlib import Path

import pytest

from homespec.catalog.facts import MIB, ModelFacts, model_facts
from homespec.catalog.gguf_header import GgufArray, GgufHeader, GgufTensor, MetadataValue, read_header
from homespec.errors import ConfigError, ModelFormatError

_X86 = frozenset({"avx2", "avx512f"})
_PI5 = frozenset({"asimd", "asimddp"})
_QWEN_SHAPE: dict[str, MetadataValue] = {
    "block_count": 28,
    "context_length": 32_768,
    "embedding_length": 1536,
    "feed_forward_length": 8960,
    "attention.head_count": 12,
    "attention.head_count_kv": 2,
}


def _header(
    architecture: str,
    keys: dict[str, MetadataValue],
    tensors: tuple[GgufTensor, ...] = (),
    path: Path | None = None,
) -> GgufHeader:
    metadata: dict[str, MetadataValue] = {"general.architecture": architecture}
    metadata |= {
        key if "." in key and key.split(".")[0] in ("split", "tokenizer") else f"{architecture}.{key}": v
        for key, v in keys.items()
    }
    tensors = tensors or (GgufTensor("token_embd.weight", (1536, 151_936), "Q4_K", 0, 131_272_704),)
    return GgufHeader(path or Path("model.gguf"), 3, metadata, tensors, 4096, 4096 + 10**9)


def _numbers(tmp_path: Path, values: list[int]) -> GgufArray:
    path = tmp_path / "array"
    path.write_bytes(array.array("i", values).tobytes())
    return GgufArray(path, "key", 5, len(values), 0, 4 * len(values))


def _facts(architecture: str, keys: dict[str, MetadataValue]) -> ModelFacts:
    return model_facts(_header(architecture, keys))


def test_a_real_file(tiny_target: Path) -> None:
    facts = model_facts(read_header(tiny_target))
    assert facts.is_known
    assert (facts.architecture, facts.num_layers, facts.training_context_tokens) == ("llama", 2, 512)
    assert facts.has_chat_template
    assert facts.full_kv_elements == 2 * 2 * (2 * 16)  # layers, keys and values, two heads of 16
    assert facts.window_kv_elements == facts.state_bytes == facts.num_experts == 0
    assert not facts.keeps_running_state
    assert facts.repacked_bytes(_X86) == 0
    assert facts.correction_key == "llama-F32"
    assert sum(facts.tensor_bytes.values()) <= facts.mapped_bytes


@pytest.mark.parametrize(
    ("context_tokens", "kv_type", "reported_mib"),
    [(2048, "f16", 56.0), (8192, "q8_0", 119.0), (32_768, "q4_0", 252.0), (2000, "f16", 56.0)],
)
def test_kv_cache_of_qwen2_as_llama_cpp_reported_it(
    context_tokens: int, kv_type: str, reported_mib: float
) -> None:
    assert _facts("qwen2", _QWEN_SHAPE).kv_cache_bytes(context_tokens, kv_type) == reported_mib * MIB


@pytest.mark.parametrize(("context_tokens", "reported_mib"), [(2048, 66.51), (8192, 72.51), (32_768, 96.51)])
def test_compute_buffer_of_qwen2_with_the_work_buffer(context_tokens: int, reported_mib: float) -> None:
    work_mib = 512 * 8960 * 2 / MIB
    computed = _facts("qwen2", _QWEN_SHAPE).compute_bytes(context_tokens, num_rows=8, batch_tokens=512) / MIB
    assert computed - work_mib == pytest.approx(reported_mib, abs=0.1)


@pytest.mark.parametrize(
    ("context_tokens", "kv_type", "reported_mib"), [(2048, "f16", 21.0), (8192, "q8_0", 20.72)]
)
def test_sliding_window_cache_of_gemma3_as_llama_cpp_reported_it(
    context_tokens: int, kv_type: str, reported_mib: float
) -> None:
    keys: dict[str, MetadataValue] = {
        "block_count": 18,
        "embedding_length": 640,
        "feed_forward_length": 2048,
        "attention.head_count": 4,
        "attention.head_count_kv": 1,
        "attention.key_length": 256,
        "attention.value_length": 256,
        "attention.sliding_window": 512,
    }
    facts = _facts("gemma3", keys)
    assert facts.window_tokens == 512
    assert facts.kv_cache_bytes(context_tokens, kv_type) / MIB == pytest.approx(reported_mib, abs=0.01)
    # Beyond the window only one layer of six grows.
    growth = facts.kv_cache_bytes(16_384, "f16") - facts.kv_cache_bytes(8192, "f16")
    assert growth == 3 * 8192 * 2 * 256 * 2


def test_logits_take_over_when_many_rows_are_wanted() -> None:
    facts = _facts("qwen2", _QWEN_SHAPE)
    assert facts.compute_bytes(2048, 512, 512) > 512 * 151_936 * 4
    assert facts.output_bytes(6) == 6 * 151_936 * 4


def test_short_batches_touch_less() -> None:
    facts = _facts("qwen2", _QWEN_SHAPE)
    assert facts.compute_bytes(2048, 6, 36) < facts.compute_bytes(2048, 6, 512) / 8


def test_which_weights_are_copied() -> None:
    def tensor(name: str, kind: str, rows: int = 1536, shape: tuple[int, ...] = ()) -> GgufTensor:
        return GgufTensor(name, shape or (256, rows), kind, 0, 1000)

    tensors = (
        tensor("token_embd.weight", "Q4_K"),
        tensor("output.weight", "Q6_K"),
        tensor("blk.0.attn_q.weight", "Q4_K"),
        tensor("blk.0.attn_k.weight", "Q4_K", rows=12),  # not a multiple of eight rows
        tensor("blk.0.attn_v.weight", "Q4_0", rows=12),
        tensor("blk.0.ffn_up.weight", "Q5_0"),
        tensor("blk.0.ffn_down.weight", "Q8_0"),
        tensor("blk.0.ffn_gate_exps.weight", "Q4_K", shape=(256, 64, 8)),
        tensor("blk.0.attn_q.bias", "F32", shape=(64,)),
        tensor("blk.0.ssm_conv1d.weight", "Q4_K"),
    )
    facts = model_facts(_header("qwen2", _QWEN_SHAPE, tensors))
    assert facts.repacked_bytes(frozenset()) == 0
    assert facts.repacked_bytes(_X86) == 2000  # attn_q and the experts
    assert facts.repacked_bytes(_PI5) == 5000  # those, output, attn_v, ffn_down
    assert facts.idle_mapped_bytes(_PI5) == 5000


def test_a_tied_token_table_is_copied_as_output_and_still_read() -> None:
    tensors = (GgufTensor("token_embd.weight", (576, 49_152), "Q8_0", 0, 30_081_024),)
    facts = model_facts(_header("llama", _QWEN_SHAPE, tensors))
    assert facts.repacked_bytes(_PI5) == 30_081_024
    assert facts.idle_mapped_bytes(_PI5) == 0
    assert facts.repacked_bytes(_X86) == 0


def test_hybrids_keep_keys_for_attention_layers_and_state_for_the_others(tmp_path: Path) -> None:
    keys: dict[str, MetadataValue] = {
        "block_count": 4,
        "embedding_length": 1024,
        "attention.head_count": 16,
        "attention.head_count_kv": _numbers(tmp_path, [0, 0, 4, 0]),
        "ssm.conv_kernel": 4,
        "ssm.inner_size": 2048,
        "ssm.state_size": 128,
        "ssm.group_count": 1,
    }
    facts = _facts("granitehybrid", keys)
    assert facts.is_known
    assert facts.full_kv_elements == 4 * 64 * 2
    assert facts.state_bytes == 3 * 4 * (3 * (2048 + 256) + 128 * 2048)
    assert facts.keeps_running_state


def test_purely_recurrent_models_have_no_kv_cache() -> None:
    keys: dict[str, MetadataValue] = {
        "block_count": 2,
        "embedding_length": 768,
        "ssm.conv_kernel": 4,
        "ssm.inner_size": 1536,
        "ssm.state_size": 16,
    }
    facts = _facts("mamba", keys)
    assert facts.kv_cache_bytes(8192, "f16") == 0
    assert facts.state_bytes == 2 * 4 * (3 * 1536 + 16 * 1536)


def test_latent_attention_keeps_one_vector() -> None:
    keys: dict[str, MetadataValue] = {
        "block_count": 27,
        "embedding_length": 2048,
        "attention.head_count": 16,
        "attention.head_count_kv": 1,
        "attention.key_length": 576,
        "attention.value_length": 512,
        "attention.key_length_mla": 192,
        "attention.value_length_mla": 128,
    }
    assert _facts("deepseek2", keys).full_kv_elements == 27 * 576


def test_layers_that_predict_further_tokens_are_not_counted() -> None:
    keys = _QWEN_SHAPE | {"nextn_predict_layers": 1}
    assert _facts("glm4moe", keys).num_layers == 27


def test_unknown_architectures_are_bounded_from_above() -> None:
    known = _facts("qwen2", _QWEN_SHAPE)
    unknown = _facts("brand-new", _QWEN_SHAPE)
    assert not unknown.is_known
    assert unknown.kv_cache_bytes(4096, "f16") == known.kv_cache_bytes(4096, "f16")
    assert unknown.compute_bytes(4096, 8, 512) > known.compute_bytes(4096, 8, 512)
    nearly_silent = _facts("brand-new", {"block_count": 2, "embedding_length": 64})
    assert nearly_silent.kv_cache_bytes(256, "f16") == 256 * 2 * (2 * 64) * 2
    tensors = (GgufTensor("blk.0.w.weight", (64, 64), "F32", 0, 16_384),)
    silent = model_facts(_header("brand-new", {}, tensors))
    assert silent.num_layers == 1
    assert silent.kv_cache_bytes(256, "f16") == 256 * (2 * 64) * 2
    assert silent.compute_bytes(256, 1, 512) > 0


def test_mixtures_of_experts_are_seen() -> None:
    keys = _QWEN_SHAPE | {"expert_count": 64, "expert_used_count": 8, "expert_feed_forward_length": 2048}
    facts = _facts("qwen2moe", keys)
    assert facts.num_experts == 64
    assert facts.compute_bytes(2048, 8, 512) > _facts("qwen2", _QWEN_SHAPE).compute_bytes(2048, 8, 512)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"block_count": 1 << 31}, "claims 2,147,483,648 layers"),
        ({"split.count": 3}, "one of 3 parts"),
        ({"block_count": "many"}, "must be a whole number"),
    ],
)
def test_impossible_headers_are_refused(keys: dict[str, MetadataValue], message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        _facts("llama", keys)


def test_a_file_without_weights_is_refused() -> None:
    header = GgufHeader(Path("vocab.gguf"), 3, {"general.architecture": "llama"}, (), 32, 32)
    with pytest.raises(ModelFormatError, match="holds no model"):
        model_facts(header)


def test_an_unknown_kv_type_is_refused() -> None:
    with pytest.raises(ConfigError, match="'q3_0' is not a type"):
        _facts("qwen2", _QWEN_SHAPE).kv_cache_bytes(256, "q3_0")


def test_prices_agree_with_the_constants_of_the_runtime() -> None:
    from homespec.catalog import facts
    from homespec.planner.prices import LoadOptions
    from homespec.runtime import binding, context

    assert context.BATCH_TOKENS == facts._BATCH_TOKENS == LoadOptions().batch_tokens
    assert set(binding.KV_TYPES) == set(facts._KV_BLOCKS)
