"""Bytes per token against numbers worked out by hand from the models' published shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_headers import FakeHeader, FakeTensor, header, llama_3_8b
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.errors import UsageError
from orin_llm.gguf import footprint
from orin_llm.gguf.header import read_header
from orin_llm.gguf.kv_layers import kv_layers
from orin_llm.models import describe


def test_llama_3_8b_reads_all_but_its_embedding() -> None:
    model = llama_3_8b()
    # 16 layers of 122,716,160 and 16 of 138,936,320; embedding, output, norm, frequencies.
    total = 16 * (122_716_160 + 138_936_320) + 295_501_824 + 430_940_160 + 16_384 + 256
    assert footprint.weight_bytes(model) == total == 4_912_898_304
    # Without the embedding (295,501,824), but one row of it: 4096 / 256 * 144.
    assert footprint.bytes_read_per_token(model) == total - 295_501_824 + 2304 == 4_617_398_784
    assert describe.parameters(model) == 8_030_261_312


def test_llama_3_8b_keeps_128_kib_a_token() -> None:
    model = llama_3_8b()
    assert footprint.kv_bytes_per_token(model) == 32 * 8 * (128 + 128) * 2 == 131_072
    assert footprint.kv_bytes_per_token(model, "q8_0") == 32 * 2 * (1024 // 32) * 34 == 69_632
    assert footprint.kv_bytes_per_token(model, "q4_0") == 32 * 2 * (1024 // 32) * 18 == 36_864
    assert footprint.kv_bytes(model, 8192) == 1 << 30


def test_smollm2_reads_everything_because_its_embedding_is_its_output(smollm2: Path) -> None:
    model = read_header(smollm2)
    # 30 layers of Q4_1 (20 bytes of 32) and two norms, the tied Q8_0 embedding, the last norm.
    layer = (2 * 576 * 576 + 2 * 576 * 192 + 3 * 576 * 1536) // 32 * 20 + 2 * 576 * 4
    assert footprint.bytes_read_per_token(model) == 30 * layer + 49152 * 576 // 32 * 34 + 576 * 4
    assert footprint.bytes_read_per_token(model) == footprint.weight_bytes(model) == 96_576_768
    assert footprint.kv_bytes_per_token(model) == 30 * 3 * (64 + 64) * 2 == 23_040
    assert footprint.logits_bytes(model) == 49152 * 4


@pytest.mark.parametrize(
    ("embedding", "width", "ctx", "chunk", "reserved_mib"),
    [  # what llama.cpp 0c1e57098 reserved on a CPU, one output, flash attention
        (576, 1536, 2048, 512, 15.51),
        (576, 1536, 8192, 512, 21.51),
        (576, 1536, 8192, 128, 5.38),
        (2048, 8192, 2048, 512, 66.01),
        (2048, 8192, 8192, 128, 18.00),
    ],
)
def test_activations_are_what_llama_cpp_reserves(
    embedding: int, width: int, ctx: int, chunk: int, reserved_mib: float
) -> None:
    model = header("llama", block_count=4, embedding_length=embedding, feed_forward_length=width)
    estimate = footprint.activation_bytes(model, ctx, chunk) / 2**20
    assert estimate == pytest.approx(reserved_mib, abs=0.02)


def test_only_the_experts_that_are_used_are_read() -> None:
    experts = FakeTensor("blk.0.ffn_up_exps.weight", "F16", (64, 128, 8))
    router = FakeTensor("blk.0.ffn_gate_inp.weight", "F32", (64, 8))
    shared = FakeTensor("blk.0.ffn_up_shexp.weight", "F16", (64, 128))
    single = FakeTensor("blk.0.ffn_up.3.weight", "F16", (64, 128))
    tensors = (experts, router, shared, single)
    model = header("qwen3moe", tensors, block_count=1, expert_count=8, expert_used_count=2)
    expected = experts.nbytes // 4 + router.nbytes + shared.nbytes + single.nbytes // 4
    assert footprint.bytes_read_per_token(model) == expected


def test_experts_may_be_used_in_another_number_per_layer() -> None:
    tensors = tuple(FakeTensor(f"blk.{i}.ffn_up_exps.weight", "F16", (64, 64, 8)) for i in (0, 1))
    model = header("x", tensors, block_count=2, expert_count=8, expert_used_count=[1, 4])
    assert footprint.bytes_read_per_token(model) == tensors[0].nbytes * 5 // 8


def test_blocks_that_predict_further_tokens_are_neither_read_nor_cached() -> None:
    tensors = tuple(FakeTensor(f"blk.{i}.attn_q.weight", "F16", (64, 64)) for i in range(3))
    keys = {"embedding_length": 64, "attention__head_count": 4}
    model = header("glm4moe", tensors, block_count=3, nextn_predict_layers=1, **keys)
    assert footprint.bytes_read_per_token(model) == 2 * tensors[0].nbytes
    assert len(kv_layers(model)) == 2


def test_heads_may_differ_per_layer_and_be_absent() -> None:
    model = header(
        "nemotron_h",
        block_count=3,
        embedding_length=512,
        attention__head_count=[8, 0, 8],
        attention__head_count_kv=[4, 0, 2],
    )
    assert footprint.kv_bytes_per_token(model) == (4 + 2) * (64 + 64) * 2


def test_key_and_value_lengths_need_not_follow_from_the_embedding() -> None:
    model = header(
        "qwen3",
        block_count=36,
        embedding_length=2560,
        attention__head_count=32,
        attention__head_count_kv=8,
        attention__key_length=128,
        attention__value_length=128,
    )
    assert footprint.kv_bytes_per_token(model) == 36 * 8 * 256 * 2 == 147_456


def test_without_kv_heads_every_head_has_its_own() -> None:
    model = header("gpt2", block_count=2, embedding_length=64, attention__head_count=4)
    assert footprint.kv_bytes_per_token(model) == 2 * 4 * 32 * 2


def gemma_3_4b(**more: Any) -> FakeHeader:
    return header(
        "gemma3",
        block_count=34,
        embedding_length=2560,
        attention__head_count=8,
        attention__head_count_kv=4,
        attention__key_length=256,
        attention__value_length=256,
        attention__sliding_window=1024,
        **more,
    )


def test_layers_with_a_sliding_window_keep_the_whole_context_too() -> None:
    model = gemma_3_4b()
    row = 4 * (256 + 256) * 2
    assert footprint.kv_bytes_per_token(model) == 34 * row
    assert footprint.kv_bytes(model, 8192) == 34 * 8192 * row
    assert footprint.largest_window(model) == 1024


def test_a_pattern_in_the_file_goes_before_the_usual_one() -> None:
    flags = [True] * 33 + [False]
    model = gemma_3_4b(attention__sliding_window_pattern=flags)
    assert [layer.window for layer in kv_layers(model)] == [1024] * 33 + [0]
    model = gemma_3_4b(attention__sliding_window_pattern=2)
    assert [layer.window for layer in kv_layers(model)] == [1024, 0] * 17


def test_without_a_known_pattern_no_layer_slides() -> None:
    model = header(
        "phi3",
        block_count=2,
        embedding_length=64,
        attention__head_count=4,
        attention__sliding_window=16,
    )
    assert [layer.window for layer in kv_layers(model)] == [0, 0]


def test_latent_attention_keeps_no_values() -> None:
    model = header(
        "deepseek2",
        block_count=27,
        embedding_length=2048,
        attention__head_count=16,
        attention__head_count_kv=1,
        attention__key_length=576,
        attention__value_length=512,
        attention__key_length_mla=192,
        attention__value_length_mla=128,
    )
    assert footprint.kv_bytes_per_token(model) == 27 * 576 * 2


def test_recurrent_layers_have_a_state_instead() -> None:
    model = header(
        "qwen35",
        block_count=8,
        embedding_length=1024,
        attention__head_count=8,
        attention__head_count_kv=2,
        attention__key_length=256,
        attention__value_length=256,
        full_attention_interval=4,
        ssm__inner_size=2048,
        ssm__state_size=128,
        ssm__group_count=16,
        ssm__conv_kernel=4,
    )
    assert footprint.kv_bytes_per_token(model) == 2 * 2 * 512 * 2
    assert footprint.state_bytes(model) == 4 * 6 * (3 * (2048 + 2 * 16 * 128) + 128 * 2048)


def test_layers_that_share_keys_keep_none() -> None:
    keys = {"embedding_length": 64, "attention__head_count": 4}
    model = header("gemma4", block_count=10, attention__shared_kv_layers=4, **keys)
    assert len(kv_layers(model)) == 6


def test_an_unknown_kv_type_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="expected f16, bf16, q8_0, q4_0"):
        footprint.kv_bytes_per_token(llama_3_8b(), "q3")


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "block_count",
                "embedding_length",
                "attention__head_count",
                "attention__head_count_kv",
                "attention__sliding_window",
                "attention__sliding_window_pattern",
                "nextn_predict_layers",
                "expert_used_count",
                "full_attention_interval",
                "attention__shared_kv_layers",
            ]
        ),
        st.one_of(
            st.integers(0, 200), st.lists(st.integers(0, 9), max_size=5), st.text(max_size=2)
        ),
    ),
    st.sampled_from(["llama", "gemma3", "qwen35", "x"]),
)
def test_no_header_makes_the_arithmetic_fail(keys: dict[str, Any], arch: str) -> None:
    model = header(arch, llama_3_8b().tensors[:6], **keys)
    assert footprint.kv_bytes_per_token(model) >= 0
    assert 0 <= footprint.bytes_read_per_token(model) <= footprint.weight_bytes(model)
    attention_mask = 10 * 100 * 2
    assert footprint.activation_bytes(model, 100, 10) >= attention_mask
