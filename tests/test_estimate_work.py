"""Operations and bytes of a step, against counts by hand and one that goes pair by pair."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_headers import FakeHeader, FakeTensor, header, llama_3_8b
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.errors import ModelFileError
from orin_llm.estimate.work import attention_flops, decode_step, prefill_steps, refuse_unmodelled
from orin_llm.gguf import footprint
from orin_llm.gguf.header import read_header
from orin_llm.models.shapes import SHAPES

# Llama 3 8B: Q, K, V and O; gate, up and down; 32 times, and the output matrix.
LAYERS_8B = 32 * (4096 * (4096 + 1024 + 1024 + 4096) + 3 * 4096 * 14336)
OUTPUT_8B = 4096 * 128256


def test_a_decoded_token_of_llama_3_8b_costs_two_operations_a_weight_and_attention() -> None:
    step = decode_step(llama_3_8b(), 2049, "f16")
    attention = 32 * 4 * 32 * 128 * 2049  # layers, operations, heads, channels, keys
    assert step.flops == 2 * (LAYERS_8B + OUTPUT_8B) + attention
    assert LAYERS_8B + OUTPUT_8B == 7_504_658_432
    assert step.bytes == 4_617_398_784 + 2049 * 131_072
    assert step.tokens == 1


def test_a_prompt_of_llama_3_8b_computes_its_logits_once() -> None:
    steps = list(prefill_steps(llama_3_8b(), 1100, 512, "f16"))
    assert [step.tokens for step in steps] == [512, 512, 76]
    pairs = 1100 * 1101 // 2
    expected = 2 * LAYERS_8B * 1100 + 2 * OUTPUT_8B + 32 * 4 * 4096 * pairs
    assert sum(step.flops for step in steps) == expected
    output = 4096 * 128256 // 256 * 210  # Q6_K
    kv = [end * 131_072 for end in (512, 1024, 1100)]
    assert [step.bytes for step in steps] == [
        4_617_398_784 - output + kv[0],
        4_617_398_784 - output + kv[1],
        4_617_398_784 + kv[2],
    ]


def test_the_default_model_uses_its_embedding_as_output(smollm2: Path) -> None:
    model = read_header(smollm2)
    layer = 2 * 576 * 576 + 2 * 576 * 192 + 3 * 576 * 1536
    attention = 30 * 4 * 9 * 64 * 100
    step = decode_step(model, 100, "f16")
    assert step.flops == 2 * (30 * layer + 576 * 49152) + attention
    assert step.bytes == 96_576_768 + 100 * 23_040


@given(
    st.integers(0, 40),
    st.integers(1, 40),
    st.integers(0, 30),
    st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_attention_costs_what_its_pairs_cost(
    context: int, tokens: int, window: int, slides: list[bool]
) -> None:
    model = header(
        "x",
        block_count=3,
        embedding_length=24,
        attention__head_count=[6, 4, 2],
        attention__head_count_kv=[2, 4, 1],
        attention__key_length=5,
        attention__value_length=3,
        attention__sliding_window=window,
        attention__sliding_window_pattern=slides,
    )
    pairs = {
        slid: sum(
            1
            for query in range(context, context + tokens)
            for key in range(query + 1)
            if not slid or query - key < window
        )
        for slid in (False, True)
    }
    expected = sum(
        2 * heads * (5 + 3) * pairs[slid and window > 0]
        for heads, slid in zip([6, 4, 2], slides, strict=True)
    )
    assert attention_flops(model, context, tokens) == expected


@given(st.integers(1, 300), st.integers(1, 64))
def test_chunks_cost_as_much_arithmetic_as_the_whole_prompt(tokens: int, chunk: int) -> None:
    model = windowed()
    in_chunks = prefill_steps(model, tokens, chunk, "f16")
    (whole,) = prefill_steps(model, tokens, tokens, "f16")
    assert sum(step.flops for step in in_chunks) == whole.flops


def test_a_window_limits_the_keys_that_are_read() -> None:
    model = windowed()
    row = 2 * (8 + 8) * 2  # heads, keys and values, f16
    assert footprint.kv_bytes_read(model, 100) == row * (16 + 100)
    assert footprint.kv_bytes_read(model, 10) == row * (10 + 10)
    # The first of five tokens looks back 16, itself included: 15 rows before the five.
    assert footprint.kv_bytes_read(model, 100, new_tokens=5) == row * (15 + 5 + 100)
    assert footprint.kv_bytes_read(model, 100, "q8_0") == 2 * 34 * (16 + 100)


def windowed() -> FakeHeader:
    """Two layers of two heads of 8 channels, the first with a window of 16 tokens."""
    tensors = (
        FakeTensor("token_embd.weight", "F16", (16, 32)),
        *(FakeTensor(f"blk.{layer}.attn_q.weight", "F16", (16, 16)) for layer in (0, 1)),
    )
    return header(
        "gemma2",
        tensors,
        block_count=2,
        embedding_length=16,
        attention__head_count=2,
        attention__head_count_kv=2,
        attention__sliding_window=16,
    )


def test_blocks_that_do_not_run_cost_nothing() -> None:
    tensors = (
        FakeTensor("output.weight", "F16", (16, 32)),
        FakeTensor("token_embd.weight", "F16", (16, 32)),
        FakeTensor("blk.0.ffn_up.weight", "F16", (16, 64)),
        FakeTensor("blk.0.ffn_norm.weight", "F32", (16,)),
        FakeTensor("blk.1.ffn_up.weight", "F16", (16, 64)),
    )
    keys = {"embedding_length": 16, "attention__head_count": 1}
    model = header("x", tensors, block_count=2, nextn_predict_layers=1, **keys)
    step = decode_step(model, 1, "f16")
    assert step.flops == 2 * (16 * 64 + 16 * 32) + 4 * 16


@pytest.mark.parametrize(
    ("arch", "keys", "what"),
    [
        ("qwen3moe", {"expert_count": 8, "expert_used_count": 2}, "mixture of experts"),
        ("mamba", {"ssm__inner_size": 64, "ssm__state_size": 16}, "recurrent"),
        ("deepseek2", {"attention__key_length_mla": 192}, "MLA"),
        ("rwkv7", {"attention__head_count": 0}, "without keys and values"),
        ("gemma3n", {"attention__shared_kv_layers": 1}, "without keys and values"),
    ],
)
def test_a_model_that_is_not_modelled_is_refused(
    arch: str, keys: dict[str, int], what: str
) -> None:
    plain = {"block_count": 30, "embedding_length": 64, "attention__head_count": 2}
    with pytest.raises(ModelFileError, match=what) as refused:
        refuse_unmodelled(header(arch, **{**plain, **keys}), Path("folder/some.gguf"))
    assert "some.gguf" in str(refused.value)
    assert refused.value.path == "folder/some.gguf"


def test_dense_models_are_modelled(smollm2: Path) -> None:
    for model in (llama_3_8b(), windowed(), read_header(smollm2)):
        refuse_unmodelled(model, Path("model.gguf"))


def test_the_shapes_of_published_models_count_like_their_files() -> None:
    from orin_llm.estimate.shaped_header import Bits, shaped_header

    model = shaped_header(SHAPES["llama-3-8b"], Bits(4.80, 6.5625))
    real = llama_3_8b()
    ours, theirs = decode_step(model, 512, "f16"), decode_step(real, 512, "f16")
    assert ours.flops == theirs.flops
    assert ours.bytes == pytest.approx(theirs.bytes, rel=1e-3)
