"""Products of weights with the activations of a few tokens, against float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from activation_bytes import F32, INT8, make_rows, read_rows
from kernel_calls import Kernels
from numpy.typing import NDArray
from stock_rounding import assert_no_worse_than_stock
from weight_blocks import NAMES, Weights, random_weights

Floats = NDArray[np.float64]


def call(
    kernels: Kernels, x: NDArray[np.float32], weights: Sequence[Weights], **other: Any
) -> tuple[list[Any], list[Floats]]:
    """What the kernel writes, and the products in float64 of what it was given."""
    input_format = F32 if weights[0].name == "f16" else INT8
    rows = make_rows(input_format, x)
    biases = other.pop("biases", [None] * len(weights))
    arguments = {
        "input_format": input_format,
        "input": rows,
        "n_values": x.shape[1],
        "matrices": [(w.type, w.rows, bias) for w, bias in zip(weights, biases, strict=True)],
        "gate": 0,
        "residual": None,
        "out_format": -1,
        "rows_per_warp": 1,
        "n_splits": 1,
    } | other
    values = read_rows(input_format, rows, x.shape[1])
    exact = [values @ w.values.T for w in weights]
    exact = [e if b is None else e + b for e, b in zip(exact, biases, strict=True)]
    return kernels.matrix_vector(arguments=arguments), exact


def activations(seed: int, n_tokens: int, n_values: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(n_tokens, n_values)).astype(np.float32)


def assert_close(got: Any, exact: Floats) -> None:
    scale = np.sqrt(np.mean(exact**2))
    np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-5 * scale)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_tokens", [1, 2, 3, 4, 5, 8])
def test_products_are_those_of_the_bytes(kernels: Kernels, name: str, n_tokens: int) -> None:
    weights = random_weights(np.random.default_rng(n_tokens), name, 11, 2304)
    x = activations(1, n_tokens, 2304)
    for rows_per_warp in (1, 2, 4):
        (got,), (exact,) = call(kernels, x, [weights], rows_per_warp=rows_per_warp)
        assert_close(got, exact)
    assert_no_worse_than_stock(got, weights, x)
