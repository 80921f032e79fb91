"""Every hyperparameter and tensor that llama.cpp would assert on or silently accept is refused."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from gguf_bytes import I64, NVFP4, Q4_0, Q8_K, Tensor, Typed, array, f32, string, tiny_llama, u32
from gguf_cases import ATTN_Q, SMALL, Case, assert_refused, key, weight

NAN, INF = math.nan, math.inf
L = "llama"
HYPERPARAMETERS = [
    key("no architecture", "general.architecture", None, "missing"),
    key("architecture of a type", "general.architecture", u32(1), "of type u32, expected string"),
    key("projector", "general.architecture", string("clip"), "a multimodal projector"),
    key("adapter", "general.type", string("adapter"), "a LoRA adapter"),
    key("name of a type", "general.name", u32(1), "of type u32, expected string"),
    key("file type of a type", "general.file_type", string("Q4"), "of type string, expected u32"),
    key("template of a type", "tokenizer.chat_template", u32(1), "of type u32, expected string"),
    key("no layers", f"{L}.block_count", u32(0), "0 layers, expected at least 1"),
    key("9000 layers", f"{L}.block_count", u32(9000), "9000 layers, more than the limit of 512"),
    key("2^32-1 layers", f"{L}.block_count", u32(2**32 - 1), "(max_layers)"),
    key("layers missing", f"{L}.block_count", None, "missing, expected the number of layers"),
    key("layers u64", f"{L}.block_count", Typed("u64", 2), "of type u64, expected u32"),
    key("no context", f"{L}.context_length", u32(0), "0 tokens, expected at least 1"),
    key("huge context", f"{L}.context_length", u32(2**31), "(max_context_length)"),
    key("context missing", f"{L}.context_length", None, "missing"),
    key("no channels", f"{L}.embedding_length", u32(0), "0 channels"),
    key("huge channels", f"{L}.embedding_length", u32(2**30), "(max_embedding)"),
    key("channels i32", f"{L}.embedding_length", Typed("i32", -1), "of type i32"),
    key("huge vocabulary", f"{L}.vocab_size", u32(2**31), "(max_vocab)"),
    key(
        "epsilon NaN",
        f"{L}.attention.layer_norm_rms_epsilon",
        f32(NAN),
        "nan, expected more than 0",
    ),
    key("epsilon 0", f"{L}.attention.layer_norm_rms_epsilon", f32(0), "0, expected more than 0"),
    key("epsilon < 0", f"{L}.attention.layer_norm_rms_epsilon", f32(-1), "-1, expected more than"),
    key("epsilon inf", f"{L}.attention.layer_norm_rms_epsilon", f32(INF), "(max_epsilon)"),
    key("epsilon f64", f"{L}.attention.layer_norm_rms_epsilon", Typed("f64", 1e-5), "expected f32"),
    key("RoPE base NaN", f"{L}.rope.freq_base", f32(NAN), "nan, expected a finite number above 0"),
    key("RoPE base 0", f"{L}.rope.freq_base", f32(0), "expected a finite number above 0"),
    key("RoPE base < 0", f"{L}.rope.freq_base", f32(-10000), "-10000, expected a finite number"),
    key("RoPE base inf", f"{L}.rope.freq_base", f32(INF), "inf, expected a finite number"),
    key("RoPE factor < 0", f"{L}.rope.scaling.factor", f32(-2), "at least 0"),
    key("RoPE factor NaN", f"{L}.rope.scaling.factor", f32(NAN), "at least 0"),
    key("RoPE type", f"{L}.rope.scaling.type", string("spiral"), "expected none, linear, yarn"),
    key("logit scale NaN", f"{L}.logit_scale", f32(NAN), "nan, expected a finite number"),
    key("any NaN in an array", f"{L}.x", array("f32", [1, NAN]), "nan, expected a finite number"),
    key("RoPE odd", f"{L}.rope.dimension_count", u32(7), "7 channels, expected an even number"),
    key("RoPE part of a head", f"{L}.rope.dimension_count", u32(4), "but heads have 8"),
    key("RoPE beyond the head", f"{L}.rope.dimension_count", u32(10), "but heads have 8"),
    key("RoPE of no channel", f"{L}.rope.dimension_count", u32(0), "expected at least 1"),
    key("RoPE odd in windows", f"{L}.rope.dimension_count_swa", u32(3), "expected an even number"),
    key("RoPE other in windows", f"{L}.rope.dimension_count_swa", u32(6), "architecture has 8"),
    key("keys other in windows", f"{L}.attention.key_length_swa", u32(6), "architecture has 8"),
    key("values other in windows", f"{L}.attention.value_length_swa", u32(6), "architecture has 8"),
    key("output of a width", f"{L}.embedding_length_out", u32(64), "architecture has 32"),
    key("soft cap < 0", f"{L}.final_logit_softcapping", f32(-1), "at least 0"),
    key("no heads", f"{L}.attention.head_count", u32(0), "0, expected at least 1"),
    Case(
        "heads do not divide",
        lambda: tiny_llama(
            metadata={f"{L}.attention.head_count": u32(6), f"{L}.rope.dimension_count": None},
            **SMALL,
        ),
        f"{L}.attention.head_count",
        f"{L}.attention.head_count/value",
        "32 channels cannot be shared by 6 heads",
    ),
    key("many heads", f"{L}.attention.head_count", u32(5000), "(max_heads)"),
    key("heads missing", f"{L}.attention.head_count", None, "missing, expected a number"),
    key("heads of a type", f"{L}.attention.head_count", f32(4), "of type f32"),
    key("heads for 3 layers", f"{L}.attention.head_count", array("u32", [4] * 3), "for 2 layers"),
    key("heads vary", f"{L}.attention.head_count", array("u32", [4, 2]), "2 in layer 1"),
    key(
        "heads < 0",
        f"{L}.attention.head_count",
        array("i32", [4, -4]),
        "-4 heads, expected at least 0",
    ),
    key("no KV heads", f"{L}.attention.head_count_kv", u32(0), "0, expected at least 1"),
    key(
        "KV heads do not divide", f"{L}.attention.head_count_kv", u32(3), "cannot share 3 KV heads"
    ),
    key("head size 0", f"{L}.attention.key_length", u32(0), "0 channels"),
    key("head size huge", f"{L}.attention.key_length", u32(9000), "(max_head_size)"),
    key("values unlike keys", f"{L}.attention.value_length", u32(16), "but keys have 8"),
    key("no feed-forward", f"{L}.feed_forward_length", u32(0), "0, expected at least 1"),
    key("window of a type", f"{L}.attention.sliding_window", f32(1), "of type f32"),
    key("window huge", f"{L}.attention.sliding_window", u32(2**32 - 1), "(max_window)"),
    key("many experts", f"{L}.expert_count", u32(1025), "(max_experts)"),
    key("no expert used", f"{L}.expert_used_count", u32(1), "1 experts used of 0"),
    key("gating function", f"{L}.expert_gating_func", u32(5), "5, more than the limit of 4"),
    key("expert groups", f"{L}.expert_group_count", u32(2), "0 experts in 2 groups"),
    key("prediction layers", f"{L}.nextn_predict_layers", u32(2), "2 layers, more than the limit"),
    key("pooling", f"{L}.pooling_type", u32(9), "9, more than the limit of 4"),
    key("causal of a type", f"{L}.attention.causal", u32(1), "of type u32, expected bool"),
    key("no window", "gemma2.attention.sliding_window", u32(0), "0 tokens", arch="gemma2"),
    key(
        "no layer with a window",
        "gemma2.attention.sliding_window_pattern",
        u32(1),
        "no layer has the window",
        arch="gemma2",
    ),
]

WEIGHTS = [
    weight("no embedding", None, "token_embd.weight", "missing, but every llama model has it"),
    weight("no norm", None, "blk.1.ffn_norm.weight", "missing, but every llama model has it"),
    weight("no query", None, ATTN_Q, "missing, but every llama model has it"),
    weight(
        "query of a shape", Tensor(ATTN_Q, (32, 31)), ATTN_Q, "of shape [32, 31], expected [32, 32]"
    ),
    weight("query in 3D", Tensor(ATTN_Q, (32, 8, 4)), ATTN_Q, "of shape [32, 8, 4]"),
    weight(
        "embedding of another vocabulary",
        Tensor("token_embd.weight", (32, 15)),
        "token_embd.weight",
        "expected [32, 16]",
    ),
    weight(
        "output of another vocabulary",
        Tensor("output.weight", (32, 17)),
        "output.weight",
        "of shape [32, 17], expected [32, 16]",
    ),
    weight(
        "quantized norm",
        Tensor("output_norm.weight", (32,), Q4_0),
        "output_norm.weight",
        "of type Q4_0, expected F32",
    ),
    weight("integer weight", Tensor(ATTN_Q, (32, 32), I64), ATTN_Q, "which weights cannot have"),
    weight(
        "factors of a type",
        Tensor("rope_freqs.weight", (4,), 1),
        "rope_freqs.weight",
        "of type F16, expected F32",
    ),
    Case(
        "intermediate type",
        lambda: tiny_llama(
            n_embd=256, n_vocab=16, tensors={ATTN_Q: Tensor(ATTN_Q, (256, 256), Q8_K)}
        ),
        ATTN_Q,
        f"{ATTN_Q}/entry",
        "of type Q8_K, which weights cannot have",
    ),
    Case(
        "NVFP4 with scale and bias",
        lambda: tiny_llama(
            n_vocab=16,
            tensors={
                ATTN_Q: Tensor(ATTN_Q, (64, 64), NVFP4),
                "blk.0.attn_q.scale": Tensor("blk.0.attn_q.scale", (1,)),
                "blk.0.attn_q.bias": Tensor("blk.0.attn_q.bias", (64,)),
            },
        ),
        ATTN_Q,
        f"{ATTN_Q}/entry",
        "both a scale and a bias",
    ),
]

CASES = [*HYPERPARAMETERS, *WEIGHTS]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_malformed_model_is_refused_with_field_and_offset(case: Case, tmp_path: Path) -> None:
    assert_refused(case, tmp_path / "broken.gguf")
