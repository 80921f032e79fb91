"""Products on tensor cores: against float64, and against how stock rounds."""

from __future__ import annotations

import math
from typing import Any

import activation_rows
import numpy as np
import pytest
from activation_rows import F16
from kernel_calls import Kernels
from numpy.typing import NDArray
from stock_rounding import assert_no_worse_than_stock
from weight_blocks import BLOCK_VALUES, NAMES, Weights, random_weights

Floats = NDArray[np.float64]

GATES = ("none", "silu", "gelu", "gelu_erf", "gelu_quick", "relu")


def gated(gate: str, x: Floats, y: Floats) -> Floats:
    erf = np.vectorize(math.erf)
    return {
        "silu": lambda: x / (1 + np.exp(-x)),
        "gelu": lambda: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        "gelu_erf": lambda: 0.5 * x * (1 + erf(x / np.sqrt(2))),
        "gelu_quick": lambda: x / (1 + np.exp(-1.702 * x)),
        "relu": lambda: np.maximum(x, 0),
    }[gate]() * y  # type: ignore[no-any-return]


def activations(rng: np.random.Generator, n_tokens: int, n_values: int) -> NDArray[np.float32]:
    """Each token with another size."""
    sizes = 2.0 ** rng.integers(-4, 5, (n_tokens, 1))
    return (rng.normal(size=(n_tokens, n_values)) * sizes).astype(np.float32)


def call(
    kernels: Kernels, x: NDArray[np.float32], matrices: list[Weights], **other: Any
) -> list[Any]:
    biases = other.pop("biases", [None] * len(matrices))
    arguments = {
        "input": activation_rows.write_rows(x, F16),
        "input_format": F16,
        "n_values": x.shape[1],
        "gate": 0,
        "residual": None,
        "out_format": -1,
        "rows_per_warp": 1,
        "n_splits": 1,
    } | other
    arguments["matrices"] = [(m.type, m.rows, b) for m, b in zip(matrices, biases, strict=True)]
    results: list[Any] = kernels.matrix_product(arguments=arguments)
    return results


def seen(x: NDArray[np.float32]) -> Floats:
    """What the rows of x stand for."""
    return activation_rows.read_rows(activation_rows.write_rows(x, F16), F16)


def rounding(x: NDArray[np.float32], weights: Weights) -> Floats:
    """Of weights to f16, twice (a scale, then the value), and of sums in f32: at most."""
    n = x.shape[1]
    size = np.abs(seen(x)) @ np.abs(weights.values).T
    largest = np.abs(seen(x)).sum(axis=1, keepdims=True) * np.abs(weights.values).max()
    # Errors are independent: most of it is far less.
    return (size * 2.0**-11 + largest * 2.0**-11) / np.sqrt(n) * 4 + size * n * 2.0**-24


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_tokens", [1, 8, 17, 33, 130])
def test_products_are_those_of_float64(kernels: Kernels, name: str, n_tokens: int) -> None:
    rng = np.random.default_rng(NAMES.index(name) * 1000 + n_tokens)
    n_values = 512 if BLOCK_VALUES[name] == 256 else 352
    weights = random_weights(rng, name, 40, n_values)
    x = activations(rng, n_tokens, n_values)
    kernels.set_seed(seed=n_tokens)
    (out,) = call(kernels, x, [weights])
    exact = seen(x) @ weights.values.T
    assert (np.abs(out - exact) <= rounding(x, weights)).all()
    assert_no_worse_than_stock(out, weights, x)
