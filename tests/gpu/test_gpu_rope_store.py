"""RoPE and the store of K and V as one node on a GPU: llama.cpp's rows, and the formula's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType as Type
from gguf.quants import dequantize
from gpu.emulated import EmulatedGpu
from numpy.typing import NDArray
from rope_formula import NEOX, NORM, Rope, llama3_factors, rotate
from rope_store_layer import hadamard, layer

from orin_llm import _native

TYPES = {"f16": Type.F16, "bf16": Type.BF16, "q8_0": Type.Q8_0, "q4_0": Type.Q4_0}
# How far rounding goes, of a value or of the largest magnitude in a block.
# Of q4_0 the largest is -8 steps; a value near 8 steps has only 7.
ROUNDING = {"f16": 2**-11, "bf16": 2**-8, "q8_0": 1 / 254 + 2**-11, "q4_0": 1 / 8 + 2**-11}

PLAIN = Rope(NORM, 64, 64)
ROPES = {
    "norm": PLAIN,
    "neox": Rope(NEOX, 128, 128, freq_base=1e6),
    "llama3": Rope(NORM, 64, 64, freq_base=5e5, freq_factors=llama3_factors(64, 5e5)),
    "yarn": Rope(
        NEOX, 64, 64, n_ctx_orig=32768, freq_base=1e6, freq_scale=0.25, ext_factor=1.0,
        attn_factor=0.9,
    ),
    "partial": Rope(NEOX, 32, 80),
    "partial-neighbours": Rope(NORM, 16, 64),
}  # fmt: skip


class Step:
    """Four tokens of one sequence, in cells that do not follow one another."""

    def __init__(self, rope: Rope, **options: Any) -> None:
        self.layer = layer(rope, **options)
        rng = np.random.default_rng(5)
        heads, kv_heads = self.layer.n_head, self.layer.n_head_kv
        dim_k, dim_v = self.layer.head_dim_k, self.layer.head_dim_v
        self.q = rng.normal(size=(4, heads, dim_k)).astype(np.float32)
        self.k = rng.normal(size=(4, kv_heads, dim_k)).astype(np.float32)
        self.v = rng.normal(size=(4, kv_heads, dim_v)).astype(np.float32)
        self.positions = np.array([7, 8, 9, 63], np.int32)
        self.cells = np.array([130, 3, 255, 17], np.int64)

    def run(self, *, hook: bool) -> Any:
        return _native.testing.run_rope_store(
            self.layer, self.q, self.k, self.v, self.positions, self.cells, hook=hook
        )

    def both(self) -> tuple[Any, Any]:
        stock, hooked = self.run(hook=False), self.run(hook=True)
        assert (hooked["n_layers"], hooked["reason"]) == (1, "")
        return stock, hooked

    def stored(self, result: Any, name: str) -> NDArray[np.float32]:
        """The values in the cells of the tokens; that all others are empty."""
        cells = result[f"{name}_cells"]
        assert not np.delete(cells, self.cells, axis=0).any()
        kind = TYPES[getattr(self.layer, f"{name}_type")]
        projection = self.k if name == "k" else self.v
        values: NDArray[np.float32] = dequantize(cells[self.cells], kind)
        return values.reshape(projection.shape)


def close_rows(stored: NDArray[Any], expected: NDArray[Any], kind: str) -> None:
    """To the rounding of the type."""
    scale = np.abs(expected)
    if kind in ("q8_0", "q4_0"):
        blocks = scale.reshape(len(scale), -1, 32)
        scale = np.broadcast_to(blocks.max(axis=-1, keepdims=True), blocks.shape)
    error = np.abs(stored - expected).reshape(scale.shape)
    assert (error <= ROUNDING[kind] * scale + 1e-4).all(), error.max()


def close_attention(hooked: Any, stock: Any, tolerance: float) -> None:
    """A GPU's flash attention does not have all sizes and pairs of types."""
    if hooked["attention"] is not None:
        np.testing.assert_allclose(hooked["attention"], stock["attention"], atol=tolerance)


@pytest.mark.parametrize("rope", ROPES.values(), ids=ROPES.keys())
@pytest.mark.parametrize("grouped", [False, True], ids=["", "grouped"])
def test_cells_and_attention_are_those_of_llama_cpp_and_of_the_formula(
    rope: Rope, grouped: bool
) -> None:
    step = Step(rope, n_head=6 if grouped else 2, n_head_kv=2)
    stock, hooked = step.both()
    expected = rotate(rope, step.k[None], step.positions)[0]
    for result in (stock, hooked):
        close_rows(step.stored(result, "k"), expected, "f16")
    assert (hooked["v_cells"] == stock["v_cells"]).all()
    np.testing.assert_allclose(hooked["attention"], stock["attention"], atol=2e-3)


@pytest.mark.parametrize("v_type", TYPES)
@pytest.mark.parametrize("k_type", TYPES)
def test_every_type_of_cells_gets_the_rotations_that_llama_cpp_makes_for_it(
    k_type: str, v_type: str
) -> None:
    step = Step(PLAIN, n_head=4, n_head_kv=2, k_type=k_type, v_type=v_type)
    stock, hooked = step.both()
    turned = rotate(PLAIN, step.k[None], step.positions)[0]
    for result in (stock, hooked):
        close_rows(step.stored(result, "k"), hadamard(turned, step.layer.k_rotation), k_type)
        close_rows(step.stored(result, "v"), hadamard(step.v, step.layer.v_rotation), v_type)
    close_attention(hooked, stock, 4e-3)


@pytest.mark.parametrize(
    "options",
    [
        {"q_scale": 0.125},
        {"q_scale": 0.3, "k_type": "q8_0", "v_type": "q8_0"},
        {"twist": "one_projection", "n_head": 4, "n_head_kv": 2},
        {"twist": "one_projection", "k_type": "q4_0", "v_type": "q4_0"},
        {"head_dim_v": 128, "v_type": "q8_0"},
    ],
    ids=str,
)
def test_scaled_queries_and_parts_of_one_projection_fit(options: dict[str, Any]) -> None:
    step = Step(PLAIN, **options)
    stock, hooked = step.both()
    for name in ("k", "v"):
        kind = getattr(step.layer, f"{name}_type")
        close_rows(step.stored(hooked, name), step.stored(stock, name), kind)
    close_attention(hooked, stock, 4e-3)


def normed(x: NDArray[Any], weight: NDArray[Any], eps: float) -> NDArray[np.float64]:
    wide = x.astype(np.float64)
    result: NDArray[np.float64] = wide / np.sqrt((wide**2).mean(axis=-1, keepdims=True) + eps)
    return result * weight


@pytest.mark.parametrize(
    ("options", "n_stock", "n_hooked"),
    [
        ({}, 9, 2),
        ({"twist": "one_projection"}, 9, 2),
        ({"q_scale": 0.25, "k_type": "q8_0", "v_type": "q8_0"}, 13, 2),
        ({"twist": "q_norm_by_head"}, 9, 4),
    ],
    ids=str,
)
def test_norms_of_the_heads_of_q_and_k_are_part_of_the_node(
    options: dict[str, Any], n_stock: int, n_hooked: int
) -> None:
    """But for one whose weights differ from head to head: that and its product stay."""
    rng = np.random.default_rng(3)
    by_head = 4 if "q_norm_by_head" in str(options) else 1
    q_norm, k_norm = (rng.uniform(0.5, 2, (n, 64)).astype(np.float32) for n in (by_head, 1))
    step = Step(
        PLAIN, n_head=4, n_head_kv=2, q_norm=q_norm.ravel(), k_norm=k_norm.ravel(), norm_eps=0.25,
        **options,
    )  # fmt: skip
    stock, hooked = step.both()
    assert (stock["n_computed"], hooked["n_computed"]) == (n_stock, n_hooked)
    expected = rotate(PLAIN, normed(step.k, k_norm[0], 0.25)[None], step.positions)[0]
    expected = hadamard(expected, step.layer.k_rotation)
    for result in (stock, hooked):
        close_rows(step.stored(result, "k"), expected, step.layer.k_type)
    close_attention(hooked, stock, 4e-3)


@pytest.mark.parametrize(("asked", "expected"), [(0, 0), (4096, 128), (1 << 40, 256 * 128 // 32)])
def test_the_node_asks_for_the_next_weights_ahead(
    emulated: EmulatedGpu, asked: int, expected: int
) -> None:
    """At most all there are: 256 rows of one head of 64."""
    step = Step(PLAIN, prefetched_bytes=asked)
    emulated.reset_counters()
    hooked = step.run(hook=True)
    assert emulated.counters().get("prefetches", 0) == expected
    close_rows(step.stored(hooked, "k"), rotate(PLAIN, step.k[None], step.positions)[0], "f16")


def test_no_launch_is_left_between_the_projections_and_attention() -> None:
    """RoPE and two stores; for quantized cells three rotations, too."""
    for options, n_stock in (({}, 5), ({"k_type": "q8_0", "v_type": "q8_0"}, 8)):
        stock, hooked = Step(PLAIN, **options).both()
        assert (stock["n_computed"], hooked["n_computed"]) == (n_stock, 2)
        assert not hooked["has_k_rotation"]


def test_a_layer_that_does_not_fit_runs_as_before_and_says_why() -> None:
    step = Step(PLAIN, twist="k_turns_differently")
    stock, hooked = step.run(hook=False), step.run(hook=True)
    assert hooked["n_layers"] == 0
    assert hooked["reason"] == "k_cells: its queries and keys turn differently"
    for name in ("k_cells", "v_cells", "attention", "n_computed"):
        np.testing.assert_array_equal(hooked[name], stock[name])


def test_sizes_that_no_kernel_has_are_left_to_llama_cpp() -> None:
    """Blocks of 32 values would lie across heads."""
    step = Step(Rope(NORM, 48, 48), n_head=2, n_head_kv=2, k_type="q8_0")
    hooked = step.run(hook=True)
    assert hooked["n_layers"] == 0
    assert "no kernel has its sizes" in hooked["reason"]
    close_rows(
        step.stored(hooked, "k"),
        rotate(Rope(NORM, 48, 48), step.k[None], step.positions)[0],
        "q8_0",
    )


@pytest.mark.parametrize("cells", ["k_type", "v_type"])
def test_cells_of_a_type_that_no_kernel_has_are_left_to_llama_cpp(cells: str) -> None:
    options: dict[str, Any] = {cells: "f32"}
    hooked = Step(PLAIN, **options).run(hook=True)
    assert hooked["n_layers"] == 0
    assert "no kernel has its sizes and types" in hooked["reason"]


def test_a_table_has_a_row_for_each_position_of_the_context() -> None:
    step = Step(PLAIN, n_ctx=64)
    assert step.run(hook=True)["table_bytes"] == 64 * 64 * 4
    assert step.run(hook=False)["table_bytes"] == 0


def test_a_table_that_the_gpu_has_no_memory_for_leaves_the_layer_as_it_is(
    emulated: EmulatedGpu,
) -> None:
    step = Step(PLAIN, n_ctx=1 << 20)
    emulated.set_memory(64 << 20)
    hooked = step.run(hook=True)
    assert "has no memory for its RoPE table" in hooked["reason"]
    close_rows(step.stored(hooked, "k"), rotate(PLAIN, step.k[None], step.positions)[0], "f16")


@pytest.mark.parametrize("position", [-1, 64, 1 << 30])
def test_a_head_whose_position_is_outside_of_the_table_is_counted(position: int) -> None:
    step = Step(PLAIN, n_ctx=64)
    inside = step.run(hook=True)
    step.positions[2] = position
    outside = step.run(hook=True)
    heads = step.layer.n_head + step.layer.n_head_kv
    assert (inside["n_outside"], outside["n_outside"]) == (0, heads)
