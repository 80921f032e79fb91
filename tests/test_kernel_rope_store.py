"""RoPE and the store into cells as one kernel: against the formula in float64, and ggml's rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize
from kernel_calls import KernelFailed, Kernels
from numpy.typing import NDArray
from rope_formula import NEOX, NORM, Rope, exact_rows, llama3_factors, rotate
from rope_store_layer import hadamard

TYPES = {0: Type.F16, 1: Type.BF16, 2: Type.Q8_0, 3: Type.Q4_0}
ROW_BYTES = {0: 2.0, 1: 2.0, 2: 34 / 32, 3: 18 / 32}
N_CELLS = 20


def projections(seed: int, n_tokens: int, heads: int, kv_heads: int, dim_k: int, dim_v: int) -> Any:
    rng = np.random.default_rng(seed)
    shapes = ((heads, dim_k), (kv_heads, dim_k), (kv_heads, dim_v))
    return tuple(rng.normal(size=(n_tokens, *shape)).astype(np.float32) for shape in shapes)


def call(kernels: Kernels, q: Any, k: Any, v: Any, rope: Rope | None = None, **other: Any) -> Any:
    """With cells full of 0xEE; the tokens have cells 3, 6, 9 …; defaults for the rest."""
    n_tokens = len(q)
    k_type, v_type = other.get("k_type", 0), other.get("v_type", 0)
    rows = exact_rows(rope, np.arange(64, dtype=np.int32)) if rope else np.zeros((64, 0, 2))
    arguments = {
        "positions": np.arange(n_tokens, dtype=np.int32),
        "table": rows.astype(np.float32),
        "neighbours": rope is None or rope.mode == NORM,
        "q_scale": 1.0,
        "k_hadamard": 0,
        "v_hadamard": 0,
        "cells": 3 * np.arange(1, n_tokens + 1),
        "k_type": k_type,
        "v_type": v_type,
        "norms": [np.zeros(0, np.float32)] * 3,
        "eps": [0.0] * 3,
        "prefetched": np.zeros(0, np.uint8),
        "n_outside": np.zeros(0, np.uint32),
    } | other
    for name, x, kind in (("k_cells", k, k_type), ("v_cells", v, v_type)):
        width = int(x[0].size * ROW_BYTES[kind]) if x is not None else 8
        arguments[name] = np.full((N_CELLS, width), 0xEE, np.uint8)
    return kernels.rope_store(q=q, k=k, v=v, **arguments)


def stored(cells: NDArray[np.uint8], kind: int, tokens: int, shape: tuple[int, ...]) -> Any:
    """The values in the cells of the tokens; that the others are untouched."""
    mine = 3 * np.arange(1, tokens + 1)
    assert (np.delete(cells, mine, axis=0) == 0xEE).all()
    return dequantize(cells[mine], TYPES[kind]).reshape(tokens, *shape)


@pytest.mark.parametrize("mode", [NORM, NEOX])
@pytest.mark.parametrize("n_dims", [64, 32, 2])
@pytest.mark.parametrize("seed", [0, 1, 5])
def test_q_and_k_turn_and_v_does_not(kernels: Kernels, mode: int, n_dims: int, seed: int) -> None:
    rope = Rope(mode=mode, n_dims=n_dims, head_dim=64)
    q, k, v = projections(seed, 5, 6, 2, 64, 48)
    positions = np.array([7, 0, 63, 8, 31], np.int32)
    kernels.set_seed(seed=seed)
    q_out, k_cells, v_cells, _ = call(kernels, q, k, v, rope, positions=positions)
    np.testing.assert_allclose(q_out, rotate(rope, q[None], positions)[0], atol=1e-6)
    expected = rotate(rope, k[None], positions)[0]
    np.testing.assert_allclose(stored(k_cells, 0, 5, (2, 64)), expected, rtol=2**-11, atol=1e-6)
    assert (stored(v_cells, 0, 5, (2, 48)) == v.astype(np.float16)).all()


def test_the_table_is_all_that_is_known_of_the_angles(kernels: Kernels) -> None:
    rope = Rope(
        mode=NEOX, n_dims=64, head_dim=64, freq_base=500000, attn_factor=1.2,
        freq_factors=llama3_factors(64, 500000.0),
    )  # fmt: skip
    q, k, v = projections(3, 3, 2, 1, 64, 64)
    q_out, _, _, _ = call(kernels, q, k, v, rope)
    expected = rotate(rope, q[None], np.arange(3, dtype=np.int32))[0]
    np.testing.assert_allclose(q_out, expected, atol=2e-6)


@pytest.mark.parametrize("k_type", TYPES)
@pytest.mark.parametrize("v_type", TYPES)
def test_rows_are_those_of_ggml(kernels: Kernels, k_type: int, v_type: int) -> None:
    """Without a turn there is nothing to round before the row: the same bytes."""
    q, k, v = projections(k_type * 4 + v_type, 4, 2, 3, 96, 64)
    k[0, 0, :32] = 0  # a scale of 0
    k[1, 0, :32] = -k[1, 0, 0]  # equal magnitudes, both signs
    k[1, 0, 0] *= -1
    v[2] *= 1e4
    k[3, 0, :4] = v[3, 0, :4] = [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 1 + 3 * 2**-11]  # ties
    _, k_cells, v_cells, _ = call(kernels, q, k, v, k_type=k_type, v_type=v_type)
    for cells, x, kind in ((k_cells, k, k_type), (v_cells, v, v_type)):
        expected = quantize(x.reshape(4, -1), TYPES[kind])
        np.testing.assert_array_equal(cells[[3, 6, 9, 12]], expected.view(np.uint8))


@pytest.mark.parametrize("size", [2, 32, 64, 128])
def test_groups_are_rotated_by_walsh_and_hadamard(kernels: Kernels, size: int) -> None:
    rope = Rope(mode=NORM, n_dims=128, head_dim=128)
    q, k, v = projections(size, 3, 2, 2, 128, 64)
    positions = np.arange(3, dtype=np.int32)
    v_size = min(size, 64)
    q_out, k_cells, v_cells, _ = call(
        kernels, q, k, v, rope, k_hadamard=size, v_hadamard=v_size, k_type=1, v_type=2
    )
    turned = [rotate(rope, x[None], positions)[0] for x in (q, k)]
    np.testing.assert_allclose(q_out, hadamard(turned[0], size), atol=3e-6)
    k_expected, v_expected = hadamard(turned[1], size), hadamard(v, v_size)
    np.testing.assert_allclose(stored(k_cells, 1, 3, (2, 128)), k_expected, rtol=2**-8, atol=1e-5)
    step = np.abs(v_expected).max() / 127  # half of it, and the scale's own rounding 127 times
    np.testing.assert_allclose(stored(v_cells, 2, 3, (2, 64)), v_expected, atol=0.57 * step)


def test_a_scale_is_of_q_alone(kernels: Kernels) -> None:
    rope = Rope(mode=NEOX, n_dims=64, head_dim=64)
    q, k, v = projections(1, 3, 2, 1, 64, 64)
    positions = np.arange(3, dtype=np.int32)
    q_out, k_cells, v_cells, _ = call(kernels, q, k, v, rope, q_scale=0.3, k_hadamard=64)
    turned = [hadamard(rotate(rope, x[None], positions)[0], 64) for x in (q, k)]
    np.testing.assert_allclose(q_out, 0.3 * turned[0], atol=1e-6)
    np.testing.assert_allclose(stored(k_cells, 0, 3, (1, 64)), turned[1], rtol=2**-11, atol=2e-6)
    assert (stored(v_cells, 0, 3, (1, 64)) == v.astype(np.float16)).all()


def test_without_k_and_v_only_q_turns(kernels: Kernels) -> None:
    rope = Rope(mode=NORM, n_dims=64, head_dim=64)
    q, _, _ = projections(1, 3, 2, 1, 64, 64)
    q_out, k_cells, v_cells, _ = call(kernels, q, None, None, rope)
    expected = rotate(rope, q[None], np.arange(3, dtype=np.int32))[0]
    np.testing.assert_allclose(q_out, expected, atol=1e-6)
    assert (k_cells == 0xEE).all() and (v_cells == 0xEE).all()


def head_norm(x: Any, weight: Any, eps: float) -> Any:
    wide = x.astype(np.float64)
    mean = np.mean(wide**2, axis=-1, keepdims=True)
    return wide / np.sqrt(mean + float(np.float32(eps))) * weight


@pytest.mark.parametrize(("dim_k", "dim_v", "n_dims"), [(64, 64, 64), (96, 160, 32), (33, 32, 2)])
@pytest.mark.parametrize("seed", [0, 1, 7])
def test_heads_are_normalised_before_they_turn(
    kernels: Kernels, dim_k: int, dim_v: int, n_dims: int, seed: int
) -> None:
    rope = Rope(mode=NEOX, n_dims=n_dims, head_dim=dim_k)
    q, k, v = projections(seed, 3, 4, 2, dim_k, dim_v)
    q[1] *= 100
    rng = np.random.default_rng(seed)
    norms = [rng.uniform(0.5, 2, n).astype(np.float32) for n in (dim_k, dim_k, dim_v)]
    eps = [1e-6, 0.5, 0.25]
    kernels.set_seed(seed=seed)
    q_out, k_cells, v_cells, _ = call(kernels, q, k, v, rope, norms=norms, eps=eps)
    positions = np.arange(3, dtype=np.int32)
    q_expected, k_expected = (
        rotate(rope, head_norm(x, norm, e)[None], positions)[0]
        for x, norm, e in zip((q, k), norms, eps, strict=False)
    )
    np.testing.assert_allclose(q_out, q_expected, atol=3e-6)
    k_stored, v_stored = stored(k_cells, 0, 3, (2, dim_k)), stored(v_cells, 0, 3, (2, dim_v))
    np.testing.assert_allclose(k_stored, k_expected, rtol=2**-11, atol=3e-6)
    np.testing.assert_allclose(v_stored, head_norm(v, norms[2], eps[2]), rtol=2**-11, atol=3e-6)


def test_a_norm_of_q_alone_leaves_k_and_v(kernels: Kernels) -> None:
    q, k, v = projections(1, 2, 2, 1, 64, 64)
    none = np.zeros(0, np.float32)
    norms = [np.full(64, 3, np.float32), none, none]
    q_out, k_cells, v_cells, _ = call(kernels, q, k, v, norms=norms)
    np.testing.assert_allclose(q_out, head_norm(q, 3, 0.0), atol=2e-6)
    assert (stored(k_cells, 0, 2, (1, 64)) == k.astype(np.float16)).all()
    assert (stored(v_cells, 0, 2, (1, 64)) == v.astype(np.float16)).all()


def test_the_next_weights_are_prefetched_besides(kernels: Kernels) -> None:
    q, k, v = projections(1, 2, 2, 1, 64, 64)
    alone = call(kernels, q, k, v)
    kernels.emulated_counters()
    both = call(kernels, q, k, v, prefetched=np.zeros(32 * 1025, np.uint8))
    for x, y in zip(alone, both, strict=True):
        np.testing.assert_array_equal(x, y)
    if counted := kernels.emulated_counters():
        assert json.loads(counted)["prefetches"] == 1025


def test_a_position_outside_the_table_gives_no_number(kernels: Kernels) -> None:
    rope = Rope(mode=NORM, n_dims=32, head_dim=64)
    q, k, v = projections(1, 3, 2, 1, 64, 64)
    positions = np.array([64, 1, -1], np.int32)
    count = np.array([5], np.uint32)
    q_out, k_cells, _, n_outside = call(
        kernels, q, k, v, rope, positions=positions, n_outside=count
    )
    assert n_outside == 5 + 2 * (2 + 1)  # tokens, heads of Q and of K
    for values in (q_out, stored(k_cells, 0, 3, (1, 64))):
        assert np.isnan(values[[0, 2], :, :32]).all()
        assert np.isfinite(values[1]).all() and np.isfinite(values[:, :, 32:]).all()


def test_not_a_number_stays_one_in_every_type(kernels: Kernels) -> None:
    q, k, v = projections(1, 1, 1, 1, 32, 32)
    k[0, 0, 3] = np.nan
    for kind in TYPES:
        _, k_cells, _, _ = call(kernels, q, k, v, k_type=kind)
        assert np.isnan(stored(k_cells, kind, 1, (1, 32))[0, 0, 3])


@pytest.mark.parametrize(
    "wrong",
    [
        {"k_hadamard": 48},
        {"k_hadamard": 128},
        {"v_hadamard": 1},
        {"table": np.zeros((8, 33, 2), np.float32)},
    ],
)
def test_sizes_that_do_not_fit_are_refused(kernels: Kernels, wrong: dict[str, Any]) -> None:
    q, k, v = projections(1, 1, 1, 1, 64, 64)
    with pytest.raises(KernelFailed, match="invalid argument"):
        call(kernels, q, k, v, **wrong)


def test_a_head_that_no_block_of_its_type_divides_is_refused(kernels: Kernels) -> None:
    q, k, v = projections(1, 1, 1, 1, 48, 48)
    with pytest.raises(KernelFailed, match="invalid argument"):
        call(kernels, q, k, v, k_type=2)
