"""Widening: zeros are added, nothing that a model computes changes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import gguf_bytes
import numpy as np
import pytest
from greedy import greedy_text
from hypothesis import given
from hypothesis import strategies as st
from llama_float64 import logits
from numpy.typing import NDArray
from stepping import step_probe

from orin_llm._native import GgufHeader, check_gguf
from orin_llm.engine import Engine, EngineConfig
from orin_llm.models.gguf_io import metadata_of
from orin_llm.models.widen import scaled_norm, widen

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "calibration" / "greedy_smollm2.json").read_text(encoding="utf-8")
)["texts"]

ZERO_TYPES = ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K"]
ZERO_TYPES += ["Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0"]


@pytest.fixture(scope="module")
def wide(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("widen") / "wide.gguf"
    widen(smollm2, out)
    return out


def rows(path: Path) -> Iterator[tuple[str, NDArray[np.uint8]]]:
    """Each tensor's bytes by row."""
    data = np.memmap(path, dtype=np.uint8, mode="r")
    for tensor in check_gguf(str(path)).tensors:
        n_rows = int(np.prod(tensor.shape[1:]))
        span = data[tensor.offset : tensor.offset + tensor.nbytes]
        yield tensor.name, span.reshape(n_rows, -1)


def matrices(header: GgufHeader) -> list[Any]:
    return [tensor for tensor in header.tensors if len(tensor.shape) > 1]


# -- the default model --------------------------------------------------------------------------


def test_every_row_divides_by_256_and_every_type_is_kept(smollm2: Path, wide: Path) -> None:
    before, after = check_gguf(str(smollm2)), check_gguf(str(wide))
    assert all(tensor.shape[0] % 256 == 0 for tensor in matrices(after))
    assert [(t.name, t.type) for t in after.tensors] == [(t.name, t.type) for t in before.tensors]


def test_only_the_widths_epsilon_and_name_change_in_the_metadata(smollm2: Path, wide: Path) -> None:
    before, after = metadata_of(check_gguf(smollm2)), metadata_of(check_gguf(wide))
    assert list(before) == list(after)
    changed = {key: value.value for key, value in after.items() if value != before[key]}
    assert changed == {
        "general.name": "Smollm2 135M 8k Lc100K Mix1 Ep2 (zero-padded, 768 wide)",
        "llama.embedding_length": 768,
        "llama.attention.head_count": 12,
        "llama.attention.head_count_kv": 4,
        "llama.attention.layer_norm_rms_epsilon": pytest.approx(0.75e-5, rel=1e-7),
    }
    assert [value.type for value in after.values()] == [value.type for value in before.values()]


def test_every_old_block_keeps_its_bits_and_every_new_byte_is_zero(
    smollm2: Path, wide: Path
) -> None:
    for (name, old), (_, new) in zip(rows(smollm2), rows(wide), strict=True):
        if not name.endswith("_norm.weight"):
            assert np.array_equal(new[: len(old), : old.shape[1]], old), name
        assert not new[len(old) :].any(), name
        assert not new[:, old.shape[1] :].any(), name


def test_greedy_text_and_logits_are_the_originals_in_exact_arithmetic(
    smollm2: Path, wide: Path
) -> None:
    texts = [text["prompt_tokens"] + text["ids"] for text in GOLDEN]
    assert len(texts) >= 5 and all(len(text["ids"]) == 64 for text in GOLDEN)
    before, after = logits(smollm2, texts), logits(wide, texts)
    # All that is left is the rounding of norm weights and epsilon to float32 in the file, some
    # 3e-8 of each: logits of deviation 6 move by a few 1e-6.
    assert np.abs(before - after).max() < 2e-5
    assert np.array_equal(before.argmax(-1), after.argmax(-1))


def test_logits_in_the_engine_are_within_its_rounding(
    smollm2: Path, wide: Path, tmp_path: Path
) -> None:
    # The engine rounds activations to 8 bits before it multiplies them with quantized weights. The
    # least change of its inputs flips some of these roundings, each flip moves the next layer's
    # inputs, and 30 layers on the logits have moved by tenths, whatever the cause. How far is
    # measured here: the same model with its norm weights moved to the next float.
    nudged = tmp_path / "nudged.gguf"
    shutil.copyfile(smollm2, nudged)
    data = np.memmap(nudged, dtype=np.uint8, mode="r+")
    for tensor in check_gguf(str(smollm2)).tensors:
        if tensor.name.endswith("_norm.weight"):
            weights = data[tensor.offset : tensor.offset + tensor.nbytes].view("<f4")
            weights[:] = np.nextafter(weights, np.float32(np.inf))
    data.flush()
    original, rounded, widened = (followed(path) for path in (smollm2, nudged, wide))
    assert rms(widened - original) < 1.5 * rms(rounded - original)
    assert (widened.argmax(-1) == original.argmax(-1)).mean() >= 0.9


def followed(path: Path) -> NDArray[np.float64]:
    """The engine's logits along a golden text: [64, n_vocab]."""
    found = []
    with Engine(path, EngineConfig(n_ctx=256, threads=1)) as engine:
        session = step_probe(engine)
        session.prefill(GOLDEN[0]["prompt_tokens"])
        for token in GOLDEN[0]["ids"]:
            found.append(session.logits().astype(np.float64))
            session.decode(token)
    return np.array(found)


def rms(x: NDArray[np.float64]) -> float:
    return float(np.sqrt((x * x).mean()))


# -- the rule -----------------------------------------------------------------------------------


@given(
    values=st.lists(st.floats(-1e3, 1e3, allow_subnormal=False), min_size=1, max_size=40),
    padding=st.integers(0, 100),
    epsilon=st.floats(1e-8, 1.0),
)
def test_the_norm_of_a_padded_state_is_the_padded_norm(
    values: list[float], padding: int, epsilon: float
) -> None:
    x = np.array(values)
    n, width = len(x), len(x) + padding
    weights = np.linspace(-2.0, 2.0, n)
    before = x / np.sqrt((x * x).mean() + epsilon) * weights
    padded = np.concatenate([x, np.zeros(padding)])
    scaled = np.concatenate([weights * np.sqrt(n / width), np.zeros(padding)])
    after = padded / np.sqrt((padded * padded).mean() + epsilon * n / width) * scaled
    np.testing.assert_allclose(after[:n], before, rtol=1e-13, atol=1e-300)  # below it: subnormal
    assert not after[n:].any()


def test_norm_weights_are_scaled_and_rounded_once() -> None:
    weights = np.array([1.0, 3.25, -0.1], dtype=np.float32)
    expected = (weights.astype(np.float64) * np.sqrt(3 / 4)).astype(np.float32)
    assert np.array_equal(scaled_norm(weights, 4), expected)


@pytest.mark.parametrize("ggml_type", ZERO_TYPES)
def test_zero_bytes_are_zero_weights_in_every_type(ggml_type: str) -> None:
    kind = gguf.GGMLQuantizationType[ggml_type]
    block = np.zeros((1, gguf.GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
    assert not gguf.dequantize(block.view("<f2") if ggml_type == "F16" else block, kind).any()


# -- other models -------------------------------------------------------------------------------


def biases(shape: gguf_bytes.Shape) -> dict[str, gguf_bytes.Tensor]:
    kv = shape.n_head_kv * shape.head
    sizes = {"attn_q": shape.n_embd, "attn_k": kv, "attn_v": kv, "attn_output": shape.n_embd}
    sizes |= {"ffn_gate": shape.n_ff, "ffn_up": shape.n_ff, "ffn_down": shape.n_embd}
    rng = np.random.default_rng(5)
    found = {}
    for layer in range(shape.n_layer):
        for name, size in sizes.items():
            data = rng.standard_normal(size).astype("<f4").tobytes()
            full = f"blk.{layer}.{name}.bias"
            found[full] = gguf_bytes.Tensor(full, (size,), data=data)
    return found


def output_matrix(shape: gguf_bytes.Shape) -> dict[str, gguf_bytes.Tensor]:
    values = np.random.default_rng(6).standard_normal((shape.n_vocab, shape.n_embd))
    data = (values / np.sqrt(shape.n_embd)).astype("<f4").tobytes()
    size = (shape.n_embd, shape.n_vocab)
    return {"output.weight": gguf_bytes.Tensor("output.weight", size, data=data)}


@pytest.mark.parametrize(
    ("shape", "width"),
    [
        (gguf_bytes.Shape(), 256),  # feed-forward padded too
        (gguf_bytes.Shape(n_embd=96, n_head=6, n_head_kv=2), 768),  # three heads to a key head
        (gguf_bytes.Shape(n_embd=320, n_head=5, n_head_kv=5, n_ff=256), 512),  # no shared heads
        (gguf_bytes.Shape(n_embd=256, n_head=4, n_head_kv=1, n_ff=300), 256),  # only feed-forward
    ],
    ids=["pairs", "triples", "unshared", "feed-forward"],
)
def test_any_llama_computes_the_same_when_widened(
    shape: gguf_bytes.Shape, width: int, tmp_path: Path
) -> None:
    source, out = tmp_path / "source.gguf", tmp_path / "out.gguf"
    extra = biases(shape) | output_matrix(shape)
    source.write_bytes(gguf_bytes.tiny_llama_bytes(shape=shape, tensors=extra))
    widen(source, out)
    header = check_gguf(str(out))
    assert header.metadata["llama.embedding_length"] == width
    assert all(tensor.shape[0] % 256 == 0 for tensor in matrices(header))
    tokens = [1, 270, 281, 265, 299, 270, 3, 100]
    assert np.abs(logits(source, [tokens]) - logits(out, [tokens])).max() < 1e-5


def test_greedy_text_in_the_engine_is_the_same_with_float_weights(tmp_path: Path) -> None:
    source, out = tmp_path / "source.gguf", tmp_path / "out.gguf"
    source.write_bytes(gguf_bytes.tiny_llama_bytes(n_embd=96, n_head=6, n_head_kv=2))
    widen(source, out)
    texts = []
    for path in (source, out):
        with Engine(path, EngineConfig(n_ctx=256, threads=1)) as engine:
            texts.append(
                [greedy_text(engine, [1, first, 280], 64).ids for first in range(260, 266)]
            )
    assert texts[0] == texts[1]


def test_metadata_of_every_type_is_copied_as_it_is(tmp_path: Path) -> None:
    source, out = tmp_path / "source.gguf", tmp_path / "out.gguf"
    integers = {f"{sign}{bits}": bits for sign in "ui" for bits in (8, 16, 32, 64)}
    extra = {
        **{
            f"x.{kind}": gguf_bytes.Typed(kind, 2 ** (bits - 1) - 1)
            for kind, bits in integers.items()
        },
        **{f"x.{kind}s": gguf_bytes.array(kind, [0, 1, 100]) for kind in integers},
        "x.f64": gguf_bytes.Typed("f64", 1e300),
        "x.f32s": gguf_bytes.array("f32", [1 / 3, float("-inf")]),
        "x.bools": gguf_bytes.array("bool", [True, False]),
        "x.latin_1": gguf_bytes.string(b"caf\xe9"),
        "x.latin_1.caf\udce9": gguf_bytes.u32(1),
        "x.strings": gguf_bytes.array("string", [b"\xff", "", "\N{SNOWMAN}"]),
    }
    source.write_bytes(gguf_bytes.tiny_llama_bytes(metadata=extra))
    widen(source, out)
    before, after = metadata_of(check_gguf(source)), metadata_of(check_gguf(out))
    assert {key: after[key] for key in extra} == {key: before[key] for key in extra}
    assert after["x.latin_1"].value == "caf\udce9"
    assert after["x.i64"].value == 2**63 - 1
