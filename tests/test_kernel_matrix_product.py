"""Products on tensor cores: against float64, and against how stock rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from activation_rows import F16, F32, INT8, assert_rows, read_rows, write_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_calls import KernelFailed, Kernels
from matrix_calls import GATES, arguments_of
from numpy.typing import NDArray
from stock_rounding import assert_no_worse_than_stock
from weight_blocks import BLOCK_VALUES, NAMES, Weights, random_weights, unpack

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]

GATE_NAMES = ("none", "silu", "gelu", "gelu_erf", "gelu_quick", "relu")


def gated(gate: str, x: Floats, y: Floats) -> Floats:
    return GATES[GATE_NAMES.index(gate)](x) * y


def activations(rng: np.random.Generator, n_tokens: int, n_values: int) -> Floats32:
    """Each token with another size."""
    sizes = 2.0 ** rng.integers(-4, 5, (n_tokens, 1))
    return (rng.normal(size=(n_tokens, n_values)) * sizes).astype(np.float32)


def call(kernels: Kernels, x: Floats32, matrices: list[Weights], **other: Any) -> list[Any]:
    results: list[Any] = kernels.matrix_product(arguments=arguments_of(x, matrices, F16, **other))
    return results


def seen(x: Floats32) -> Floats:
    """What the rows of x stand for."""
    return read_rows(write_rows(x, F16), F16)


def product(x: Floats32, weights: Weights) -> Floats:
    exact: Floats = seen(x) @ weights.values.T
    return exact


def rounding(x: Floats32, weights: Weights) -> Floats:
    """Of scales and values of weights to f16, and of sums in f32.

    Five standard deviations of errors that are independent and uniform, 2^-11 wide for the size of
    the block's largest value.
    """
    largest = np.abs(weights.values).max()
    of_weights = largest * 2.0**-11 * np.sqrt((seen(x) ** 2).sum(axis=1, keepdims=True))
    of_sums = 2.0**-22 * (np.abs(seen(x)) @ np.abs(weights.values).T)
    most: Floats = 5 / np.sqrt(12) * of_weights + of_sums
    return most


def assert_product(
    out: Any, x: Floats32, weights: Weights, more: Floats | Floats32 | float = 0.0
) -> None:
    exact = product(x, weights) + more
    error = np.abs(out - exact) - rounding(x, weights) - 1e-6 * np.abs(exact)
    assert out.shape == exact.shape and (error <= 0).all(), error.max()


def random_bias(rng: np.random.Generator, n: int) -> Floats32:
    return rng.normal(size=n).astype(np.float32)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_tokens", [1, 3, 8, 17, 33, 120])
def test_products_are_those_of_float64(kernels: Kernels, name: str, n_tokens: int) -> None:
    rng = np.random.default_rng(NAMES.index(name) * 1000 + n_tokens)
    n_blocks = 1 if n_tokens > 100 else 2
    n_values = 256 * n_blocks if BLOCK_VALUES[name] == 256 else 160 * n_blocks
    weights = random_weights(rng, name, 40, n_values)
    x = activations(rng, n_tokens, n_values)
    kernels.set_seed(seed=n_tokens + NAMES.index(name))
    (out,) = call(kernels, x, [weights])
    assert_product(out, x, weights)
    assert_no_worse_than_stock(out, weights, x)


@pytest.mark.parametrize(
    ("name", "n_tokens", "n_rows", "n_values"), [("q4_K", 65, 20, 768), ("f16", 300, 140, 64)]
)
def test_prompts_are_cut_into_tiles(
    kernels: Kernels, name: str, n_tokens: int, n_rows: int, n_values: int
) -> None:
    rng = np.random.default_rng(n_tokens)
    weights = random_weights(rng, name, n_rows, n_values)
    x = activations(rng, n_tokens, n_values)
    kernels.set_seed(seed=3)
    (out,) = call(kernels, x, [weights])
    assert_product(out, x, weights)


@pytest.mark.parametrize("n_tokens", [5, 20])
def test_matrices_of_a_launch_have_types_and_sizes_of_their_own(
    kernels: Kernels, n_tokens: int
) -> None:
    rng = np.random.default_rng(n_tokens)
    matrices = [
        random_weights(rng, name, n, 256, padding)
        for name, n, padding in (("q4_K", 130, 16), ("q6_K", 33, 6), ("q8_0", 64, 2))
    ]
    x = activations(rng, n_tokens, 256)
    biases = [random_bias(rng, 130), None, random_bias(rng, 64)]
    outs = call(kernels, x, matrices, biases=biases)
    for out, weights, bias in zip(outs, matrices, biases, strict=True):
        assert_product(out, x, weights, 0.0 if bias is None else bias)


@pytest.mark.parametrize("gate", GATE_NAMES[1:])
@pytest.mark.parametrize("n_tokens", [3, 34])
def test_a_gate_multiplies_two_products(kernels: Kernels, gate: str, n_tokens: int) -> None:
    rng = np.random.default_rng(n_tokens)
    name = "q6_K" if gate == "gelu" else "q4_1"
    matrices = [random_weights(rng, name, 75, 256) for _ in range(2)]
    biases = [random_bias(rng, 75), random_bias(rng, 75)]
    residual = rng.normal(size=(n_tokens, 75)).astype(np.float32)
    x = activations(rng, n_tokens, 256)
    (out,) = call(
        kernels,
        x,
        matrices,
        gate=GATE_NAMES.index(gate),
        biases=biases,
        residual=residual,
        n_splits=1,
    )
    first, second = (product(x, m) + b for m, b in zip(matrices, biases, strict=True))
    exact = gated(gate, first, second) + residual
    # No activation is steeper than 1.2.
    error = 1.2 * rounding(x, matrices[0]) * (np.abs(second) + 1) + (np.abs(first) + 1) * rounding(
        x, matrices[1]
    )
    assert (np.abs(out - exact) <= error + 1e-5).all()


@pytest.mark.parametrize("row_format", [F32, INT8, F16])
@pytest.mark.parametrize("gate", ["none", "silu"])
@pytest.mark.parametrize("n_tokens", [6, 35])
def test_results_become_rows_for_the_next_product(
    kernels: Kernels, row_format: int, gate: str, n_tokens: int
) -> None:
    rng = np.random.default_rng(n_tokens)
    matrices = [random_weights(rng, "f16", 96, 64) for _ in range(1 + (gate != "none"))]
    x = activations(rng, n_tokens, 64)
    residual = rng.normal(size=(n_tokens, 96)).astype(np.float32)
    other: dict[str, Any] = {"gate": GATE_NAMES.index(gate), "residual": residual}
    (exact,) = call(kernels, x, matrices, **other)
    (rows,) = call(kernels, x, matrices, out_format=row_format, **other)
    assert (rows != 0xEE).any(axis=1).all()
    if row_format == F16:  # of a row that is not seen as a whole
        np.testing.assert_allclose(read_rows(rows, F16), exact, rtol=2**-11, atol=2**-21)
    else:
        assert_rows(rows, row_format, exact.astype(np.float64))
    if gate == "none":
        assert_product(exact, x, matrices[0], residual)


@pytest.mark.parametrize("n_tokens", [2, 20])
def test_parts_of_rows_add_up_the_same_whichever_comes_last(
    kernels: Kernels, n_tokens: int
) -> None:
    rng = np.random.default_rng(n_tokens)
    weights = random_weights(rng, "q5_K", 70, 768)
    x = activations(rng, n_tokens, 768)
    outs = []
    for seed in (0, 1):
        kernels.set_seed(seed=seed)
        outs += call(kernels, x, [weights], n_splits=3)
    assert_product(outs[0], x, weights)
    for out in outs[1:]:
        np.testing.assert_array_equal(out, outs[0])


def test_more_splits_than_there_are_values_for_add_nothing(kernels: Kernels) -> None:
    rng = np.random.default_rng(1)
    weights = random_weights(rng, "q4_0", 20, 160)
    x = activations(rng, 2, 160)
    (out,) = call(kernels, x, [weights], n_splits=5)
    assert_product(out, x, weights)


@pytest.mark.parametrize("name", ["q6_K", "q4_K"])
def test_small_weights_keep_their_bits(kernels: Kernels, name: str) -> None:
    """About 1e-4, where d · scale is no normal f16 number."""
    rng = np.random.default_rng(1)
    rows = random_weights(rng, name, 20, 256).rows.copy()
    for at in (208,) if name == "q6_K" else (0, 2):
        halves = np.ascontiguousarray(rows[:, at : at + 2]).view("<f2")
        rows[:, at : at + 2] = (halves / np.float16(512)).astype("<f2").view(np.uint8)
    weights = Weights(name, rows, unpack(name, rows, 256))
    x = activations(rng, 2, 256)
    (out,) = call(kernels, x, [weights])
    assert_product(out, x, weights)


@settings(
    max_examples=8,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    name=st.sampled_from(NAMES),
    n_tokens=st.integers(1, 34),
    n_rows=st.integers(1, 70),
    n_blocks=st.integers(1, 3),
    n_splits=st.integers(1, 4),
    padding=st.sampled_from([0, 16]),
    seed=st.integers(0, 99),
)
def test_any_shape(
    kernels: Kernels,
    name: str,
    n_tokens: int,
    n_rows: int,
    n_blocks: int,
    n_splits: int,
    padding: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    n_values = n_blocks * max(BLOCK_VALUES[name], 32)
    weights = random_weights(rng, name, n_rows, n_values, padding)
    x = activations(rng, n_tokens, n_values)
    kernels.set_seed(seed=seed)
    (out,) = call(kernels, x, [weights], n_splits=n_splits)
    assert_product(out, x, weights)


def test_splits_keep_multiprocessors_busy(kernels: Kernels) -> None:
    rng = np.random.default_rng(1)
    weights = random_weights(rng, "q4_K", 128, 4096)

    def splits(n_tokens: int, n_multiprocessors: int) -> int:
        arguments = arguments_of(np.zeros((n_tokens, 4096), np.float32), [weights], F16)
        n: int = kernels.matrix_product_splits(
            arguments=arguments, n_multiprocessors=n_multiprocessors
        )
        return n

    assert splits(8, 1) > 1
    assert splits(8, 132) == splits(8, 16) == 8  # parts of 512 values are worth it
    assert splits(2048, 1) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"input_format": INT8},
        {"n_values": 48},
        {"n_splits": 0},
        {"gate": 1},
        {"out_format": F16},  # of 40 rows
    ],
)
def test_what_does_not_fit_is_refused(kernels: Kernels, wrong: dict[str, Any]) -> None:
    weights = random_weights(np.random.default_rng(1), "f16", 40, 64)
    arguments = arguments_of(np.zeros((1, 64), np.float32), [weights], F16, **wrong)
    assert not kernels.can_matrix_product(arguments=arguments)
    with pytest.raises(KernelFailed, match="invalid argument"):
        kernels.matrix_product(arguments=arguments)


def test_a_gate_has_two_matrices_of_one_type(kernels: Kernels) -> None:
    rng = np.random.default_rng(1)
    x = np.zeros((1, 256), np.float32)
    for names, fits in ((("q4_K", "q6_K"), False), (("q4_K", "q4_K"), True)):
        matrices = [random_weights(rng, name, 32, 256) for name in names]
        arguments = arguments_of(x, matrices, F16, gate=1, out_format=INT8)
        assert kernels.can_matrix_product(arguments=arguments) == fits
