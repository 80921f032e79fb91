"""Products of weights with the activations of a few tokens, against float64."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from activation_rows import F16, F32, INT8, read_rows, write_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_calls import KernelFailed, Kernels
from matrix_calls import GATES, SILU, arguments_of
from numpy.typing import NDArray
from stock_rounding import assert_no_worse_than_stock
from weight_blocks import BLOCK_VALUES, NAMES, Weights, random_weights

Floats = NDArray[np.float64]


def activations(seed: int, n_tokens: int, n_values: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(n_tokens, n_values)).astype(np.float32)


def arguments(x: NDArray[np.float32], weights: Sequence[Weights], **other: Any) -> dict[str, Any]:
    return arguments_of(x, weights, F32 if weights[0].name == "f16" else INT8, **other)


def products(given_: dict[str, Any], weights: Sequence[Weights]) -> list[Floats]:
    """In float64, of what the kernel is given; with biases."""
    values = read_rows(given_["input"], given_["input_format"])
    return [
        values @ w.values.T + (0.0 if bias is None else bias)
        for w, (_, _, bias) in zip(weights, given_["matrices"], strict=True)
    ]


def assert_close(got: Any, exact: Floats) -> None:
    scale = np.sqrt(np.mean(exact**2))
    np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-5 * scale)


def assert_rounded(got: Any, exact: Floats) -> None:
    """got: int8 rows, each value at most half a step of its group off."""
    groups = exact.reshape(len(exact), -1, 32)
    steps = np.abs(groups).max(axis=-1).repeat(32, axis=1) / 127
    assert (np.abs(read_rows(got, INT8) - exact) <= 0.501 * steps).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_tokens", [1, 2, 3, 4, 5, 8])
def test_products_are_those_of_the_bytes(kernels: Kernels, name: str, n_tokens: int) -> None:
    """Those of eight tokens are more than are in shared memory at a time."""
    n_values = 4608 if n_tokens == 8 else 2304
    weights = random_weights(np.random.default_rng(n_tokens), name, 11, n_values)
    x = activations(1, n_tokens, n_values)
    for rows_per_warp in (1, 2, 4):
        what = arguments(x, [weights], rows_per_warp=rows_per_warp)
        (got,) = kernels.matrix_vector(arguments=what)
        assert_close(got, products(what, [weights])[0])
    assert_no_worse_than_stock(got, weights, x)


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(NAMES))
    block = max(BLOCK_VALUES[name], 32)
    padding = {"f16": 16, "q4_K": 16, "q5_K": 16, "q4_1": 4}.get(name, 2)
    return {
        "name": name,
        "n_rows": draw(st.sampled_from([1, 2, 7, 8, 9, 33, 70])),
        "n_values": block * draw(st.integers(1, 2600 // block)),
        "padding": padding * draw(st.sampled_from([0, 0, 1, 3])),
        "n_tokens": draw(st.sampled_from([1, 1, 2, 6])),
        "rows_per_warp": draw(st.sampled_from([1, 2, 4])),
        "n_splits": draw(st.sampled_from([1, 2, 3, 4, 8, 9])),
        "seed": draw(st.integers(0, 9)),
    }


@settings(max_examples=40)
@given(shape=shapes())
def test_any_shape_is_right_and_nothing_else_is_read(
    kernels: Kernels, shape: dict[str, Any]
) -> None:
    """Rows end where their memory does, and what lies between them is 0xEE."""
    rng = np.random.default_rng(shape["seed"])
    weights = random_weights(
        rng, shape["name"], shape["n_rows"], shape["n_values"], shape["padding"]
    )
    x = activations(shape["seed"], shape["n_tokens"], shape["n_values"])
    cut = {key: shape[key] for key in ("rows_per_warp", "n_splits")}
    what = arguments(x, [weights], **cut)
    kernels.set_seed(seed=shape["seed"])
    (got,) = kernels.matrix_vector(arguments=what)
    assert_close(got, products(what, [weights])[0])


@pytest.mark.parametrize("n_tokens", [1, 3])
@pytest.mark.parametrize(
    "names", [("q4_K", "q4_K", "q6_K"), ("q8_0", "q5_K", "q4_1"), ("f16", "f16", "f16")]
)
def test_a_launch_has_three_matrices_of_any_types_and_sizes(
    kernels: Kernels, names: tuple[str, ...], n_tokens: int
) -> None:
    rng = np.random.default_rng(5)
    sizes = (70, 9, 33)
    weights = [
        random_weights(rng, name, n_rows, 512) for name, n_rows in zip(names, sizes, strict=True)
    ]
    biases = [rng.normal(size=sizes[0]).astype(np.float32), None, np.ones(33, np.float32)]
    what = arguments(activations(2, n_tokens, 512), weights, biases=biases, rows_per_warp=2)
    got = kernels.matrix_vector(arguments=what)
    for one, exact in zip(got, products(what, weights), strict=True):
        assert_close(one, exact)


@pytest.mark.parametrize(
    ("out_format", "gate"),
    [*((-1, gate) for gate in (0, *GATES)), *itertools.product((F32, INT8, F16), (0, SILU))],
)
@pytest.mark.parametrize("n_tokens", [1, 5])
def test_results_are_gated_added_to_and_put_into_rows(
    kernels: Kernels, out_format: int, gate: int, n_tokens: int
) -> None:
    rng = np.random.default_rng(gate)
    weights = [random_weights(rng, "q4_K", 96, 256) for _ in range(2 if gate else 1)]
    biases = [rng.normal(size=96).astype(np.float32) for _ in weights]
    residual = rng.normal(size=(n_tokens, 96)).astype(np.float32)
    what = arguments(
        activations(gate, n_tokens, 256), weights, biases=biases, gate=gate, residual=residual,
        out_format=out_format, rows_per_warp=(1, 2, 4)[gate % 3], n_splits=(1, 2)[gate % 2],
    )  # fmt: skip
    first, *second = products(what, weights)
    exact = GATES[gate](first) * second[0] + residual if gate else first + residual
    (got,) = kernels.matrix_vector(arguments=what)
    if out_format == INT8:
        assert_rounded(got, exact)
        expected = write_rows(read_rows(got, INT8), INT8)
        np.testing.assert_array_equal(got[:, :96], expected[:, :96])
    elif out_format == F16:
        np.testing.assert_allclose(read_rows(got, F16), exact, rtol=2**-10, atol=1e-5)
    else:
        assert_close(got if out_format < 0 else read_rows(got, F32), exact)


def test_blocks_of_many_rows_have_them_one_after_the_other(kernels: Kernels) -> None:
    weights = random_weights(np.random.default_rng(1), "q4_0", 96 * 64 + 32, 32)
    what = arguments(activations(1, 1, 32), [weights], rows_per_warp=4, out_format=INT8)
    (got,) = kernels.matrix_vector(arguments=what)
    assert_rounded(got, products(what, [weights])[0])


def test_a_number_that_is_none_spoils_its_token_alone(kernels: Kernels) -> None:
    for name in ("q4_K", "q6_K", "q8_0", "f16"):
        weights = random_weights(np.random.default_rng(0), name, 9, 512)
        what = arguments(activations(0, 2, 512), [weights])
        place = 512 + 16 * 3 if what["input_format"] == INT8 else 40
        what["input"][1, place : place + 4] = np.array([np.nan], "<f4").view(np.uint8)
        (got,) = kernels.matrix_vector(arguments=what)
        assert np.isfinite(got[0]).all() and np.isnan(got[1]).all()


def test_what_does_not_fit_is_refused(kernels: Kernels) -> None:
    rng = np.random.default_rng(0)
    q4, q6, f16 = (random_weights(rng, name, 40, 512) for name in ("q4_K", "q6_K", "f16"))
    x = activations(0, 1, 512)
    other = random_weights(rng, "q4_K", 32, 512)
    wrong = [
        arguments(activations(0, 9, 512), [q4]),
        arguments(x, [q4], input_format=F32),
        arguments(x, [f16], input_format=INT8),
        arguments(x, [q4, f16]),
        arguments(x, [q4], rows_per_warp=3),
        arguments(x, [q4], n_splits=0),
        arguments(x, [q4], gate=SILU),
        arguments(x, [q4, other], gate=SILU),
        arguments(x, [q4, q6], gate=SILU),
        arguments(x, [q4, q4], residual=np.zeros((1, 40), np.float32)),
        arguments(x, [q4], out_format=INT8),
        arguments(x, [q4, q4], out_format=F32),
        arguments(x, [random_weights(rng, "q4_K", 4, 512, padding=8)]),
        arguments(activations(0, 1, 768), [q4]),
        arguments(activations(0, 1, 480), [q4]),
    ]
    assert kernels.can_matrix_vector(arguments=arguments(x, [q4]))
    for what in wrong:
        assert not kernels.can_matrix_vector(arguments=what)
        with pytest.raises(KernelFailed, match="invalid"):
            kernels.matrix_vector(arguments=what)


def test_few_rows_are_cut_and_many_share_activations(kernels: Kernels) -> None:
    rng = np.random.default_rng(0)
    x = activations(0, 1, 8192)
    few = arguments(x, [random_weights(rng, "q4_K", 64, 8192)])
    many = arguments(x[:, :256], [random_weights(rng, "q4_K", 8192, 256)])
    assert kernels.matrix_vector_cut(arguments=few, n_multiprocessors=16) == (1, 4)
    assert kernels.matrix_vector_cut(arguments=many, n_multiprocessors=16) == (4, 1)
    assert kernels.matrix_vector_cut(arguments=many, n_multiprocessors=132) == (2, 1)
