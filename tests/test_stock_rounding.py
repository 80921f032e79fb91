"""The model of stock's rounding: what it is made of, and how large its errors are."""

from __future__ import annotations

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType as Type
from gguf.quants import quantize
from stock_rounding import (
    assert_no_worse_than_stock,
    exact_product,
    relative_error,
    stock_activations,
    stock_product,
)
from weight_blocks import NAMES, random_weights


def test_activations_are_rounded_as_upstream_rounds_its_blocks_of_8_bits() -> None:
    x = np.random.default_rng(1).normal(size=(3, 128)).astype(np.float32)
    x[0, :32] = 0
    x[1, :4] = [127, 0.5, -0.5, 1.5]  # a scale of 1, and ties
    quants, scales, sums = stock_activations(x)
    blocks = quantize(x, Type.Q8_0).reshape(3, 4, 34)
    np.testing.assert_array_equal(quants.reshape(3, 4, 32), blocks[..., 2:].view(np.int8))
    np.testing.assert_array_equal(scales, np.ascontiguousarray(blocks[..., :2]).view("<f2")[..., 0])
    np.testing.assert_allclose(sums, x.reshape(3, 4, 32).sum(axis=-1), rtol=2**-10, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_error_is_that_of_8_bits_or_of_sums_in_f16(name: str) -> None:
    """A step of 8 bits is 1/127 of the largest of 32, 1/60 of their deviation."""
    rng = np.random.default_rng(NAMES.index(name))
    weights = random_weights(rng, name, 64, 1024)
    x = rng.normal(size=(4, 1024)).astype(np.float32)
    error = relative_error(stock_product(weights, x), exact_product(weights, x))
    least, most = (1e-4, 2e-3) if name == "f16" else (3e-3, 3e-2)
    assert least < error < most


def test_what_is_worse_than_stock_is_said() -> None:
    rng = np.random.default_rng(1)
    weights = random_weights(rng, "q4_K", 16, 256)
    x = rng.normal(size=(2, 256)).astype(np.float32)
    stock, exact = stock_product(weights, x), exact_product(weights, x)
    assert_no_worse_than_stock(stock, weights, x)
    with pytest.raises(AssertionError, match=r"q4_K: an error of .*, stock's"):
        assert_no_worse_than_stock((exact + 1.2 * (stock - exact)).astype(np.float32), weights, x)
