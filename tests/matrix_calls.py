"""What kernels for products are called with, and what a gate makes of two products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from activation_rows import write_rows
from numpy.typing import NDArray
from weight_blocks import Weights

Floats = NDArray[np.float64]

SILU, GELU, GELU_ERF, GELU_QUICK, RELU = range(1, 6)
GATES: dict[int, Callable[[Floats], Floats]] = {
    SILU: lambda x: x / (1 + np.exp(-x)),
    GELU: lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * x * (1 + 0.044715 * x**2))),
    GELU_ERF: lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    GELU_QUICK: lambda x: x / (1 + np.exp(-1.702 * x)),
    RELU: lambda x: np.maximum(x, 0),
}


def arguments_of(
    x: NDArray[np.float32], weights: Sequence[Weights], rows_format: int, **other: Any
) -> dict[str, Any]:
    """Of both kernels. `other` replaces some of them; `biases` are those of all matrices."""
    biases = other.pop("biases", [None] * len(weights))
    return {
        "input_format": rows_format,
        "input": write_rows(x, rows_format),
        "n_values": x.shape[1],
        "matrices": [(w.type, w.rows, bias) for w, bias in zip(weights, biases, strict=True)],
        "gate": 0,
        "residual": None,
        "out_format": -1,
        "rows_per_warp": 1,
        "n_splits": 1,
    } | other
