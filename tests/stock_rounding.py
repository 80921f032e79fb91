"""How stock llama.cpp's CUDA kernels for few tokens round a product of weights with activations.

What our kernels are compared with: their error must be no more than ALLOWED times stock's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from weight_blocks import Weights

Floats32 = NDArray[np.float32]
Floats = NDArray[np.float64]

GROUP = 32  # activations that share a scale
ALLOWED = 1.1


def stock_product(weights: Weights, x: Floats32) -> Floats32:
    """[n_tokens, n_rows] of x [n_tokens, n_values], as stock rounds it.

    Its products for many tokens round more: they have scales of weights and activations in f16.
    """
    if weights.name == "f16":
        return _half_product(weights.values.astype(np.float16), x)
    quants, scales, sums = stock_activations(x)
    by_group = (len(x), -1, GROUP)
    if weights.name in ("q4_0", "q4_1"):
        d, low, w = _quants_of_4_bits(weights, x.shape[1])
    else:  # the weight's scale enters sums of integers: nothing is lost but in float
        d = low = np.zeros((len(weights.rows), x.shape[1] // GROUP), np.float16)
        w = weights.values
    w = w.reshape(len(w), -1, GROUP)
    dots = np.einsum("rgi,tgi->trg", w, quants.reshape(by_group)).astype(np.float32)
    scale = scales[:, None, :].astype(np.float32)
    if weights.name == "q4_0":
        terms = d.astype(np.float32) * (dots * scale - np.float32(8) * sums[:, None, :])
    elif weights.name == "q4_1":  # both products are made in f16
        product = d * scales[:, None, :]
        terms = dots * product.astype(np.float32) + (low * sums[:, None, :]).astype(np.float32)
    else:
        terms = dots * scale
    return terms.astype(np.float32).sum(axis=-1, dtype=np.float32)


def stock_activations(
    x: Floats32,
) -> tuple[NDArray[np.int8], NDArray[np.float16], NDArray[np.float16]]:
    """int8 [n_tokens, n_values]; scales and sums of the groups, [n_tokens, n_values / 32]."""
    groups = x.reshape(len(x), -1, GROUP)
    scale = np.abs(groups).max(axis=-1, keepdims=True) / np.float32(127)
    inexact = np.divide(groups, scale, out=np.zeros_like(groups), where=scale != 0)
    rounded = np.trunc(inexact + np.copysign(np.float32(0.5), inexact))  # ties away from zero
    sums = groups.sum(axis=-1, dtype=np.float32).astype(np.float16)
    return rounded.astype(np.int8).reshape(x.shape), scale[..., 0].astype(np.float16), sums


def exact_product(weights: Weights, x: Floats32) -> Floats:
    return x.astype(np.float64) @ weights.values.T


def relative_error(got: NDArray[np.floating], exact: Floats) -> float:
    """Root mean square of the error, as a part of the values'."""
    return float(np.sqrt(np.mean((got - exact) ** 2) / np.mean(exact**2)))


def assert_no_worse_than_stock(got: Floats32, weights: Weights, x: Floats32) -> None:
    """got: [n_tokens, n_rows], what a kernel makes of the weights and x [n_tokens, n_values]."""
    exact = exact_product(weights, x)
    ours, stocks = relative_error(got, exact), relative_error(stock_product(weights, x), exact)
    assert ours <= ALLOWED * stocks, f"{weights.name}: an error of {ours:.2e}, stock's {stocks:.2e}"


def _quants_of_4_bits(
    weights: Weights, n_values: int
) -> tuple[NDArray[np.float16], NDArray[np.float16], Floats]:
    """d and m of each group, [n_rows, n_groups]; the quants from 0 to 15, [n_rows, n_values]."""
    head = 2 if weights.name == "q4_0" else 4
    n_rows, n_groups = len(weights.rows), n_values // GROUP
    blocks = weights.rows[:, : n_groups * (head + 16)].reshape(n_rows, n_groups, head + 16)
    halves = np.ascontiguousarray(blocks[..., :head]).view("<f2")
    packed = blocks[..., head:]
    quants = np.concatenate((packed & 15, packed >> 4), axis=-1).astype(np.float64)
    return halves[..., 0], halves[..., -1], quants.reshape(n_rows, n_values)


def _half_product(w: NDArray[np.float16], x: Floats32) -> Floats32:
    """Activations become f16, and each thread has its sums of pairs in f16."""
    n_values = x.shape[1]
    threads = min(range(32, 257, 32), key=lambda n: (-(-n_values // (2 * n)), n))
    steps = -(-n_values // (2 * threads))
    padding = ((0, 0), (0, steps * threads * 2 - n_values))
    w_steps = np.pad(w, padding).reshape(len(w), steps, threads, 2).astype(np.float64)
    x_steps = np.pad(x.astype(np.float16), padding).reshape(len(x), steps, threads, 2)
    sums = np.zeros((len(x), len(w), threads, 2), np.float16)
    for step in range(steps):
        products = w_steps[None, :, step] * x_steps[:, None, step].astype(np.float64)
        sums = (sums + products).astype(np.float16)
    pairs = sums.astype(np.float32).sum(axis=-1, dtype=np.float32)
    return pairs.sum(axis=-1, dtype=np.float32)
