"""Errors of paged attention's kernels beside those of plain arithmetic of the same precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attention_calls import MATRIX_TYPES, attend
from attention_cases import Model, Sequence, make_step
from attention_float64 import KV_TYPES, Attention, decode
from numpy.typing import NDArray


def plain_float32(step: Attention) -> NDArray[np.float32]:
    """Of one token with one KV head: the formula in float32, its sums from first to last."""

    def total(x: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.cumsum(x, axis=0, dtype=np.float32)[-1]

    cells = step.cells(0)
    k, v = (
        decode(stored[cells], kv_type).astype(np.float32)
        for stored, kv_type in ((step.k, step.k_type), (step.v, step.v_type))
    )
    results = []
    for q in step.q[0]:
        scores = total((k * q).T) * np.float32(step.scale)
        weights = np.exp(scores - scores.max())
        results.append(total(weights[:, None] * v) / total(weights))
    return np.stack(results)[None]


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize(("n_past", "n_splits"), [(100, 2), (1000, 8), (3000, 1)])
def test_error_is_at_most_that_of_plain_float32(kernels, kv_type, n_past, n_splits):
    ours, plain = [], []
    for seed in range(4):
        model = Model(1, 2, 64, 64, kv_type, kv_type)
        step = make_step(model, [Sequence(n_past, 1)], 16, seed)
        exact = step.exact()
        plain.append(plain_float32(step) - exact)
        ours.append(attend(kernels, step, n_splits, form="floats") - exact)
    assert np.abs(ours).max() <= 1.1 * np.abs(plain).max()
    assert np.sqrt(np.square(ours).mean()) <= 1.1 * np.sqrt(np.square(plain).mean())


def with_rounding(step: Attention, products: type[np.floating[Any]]) -> NDArray[np.float32]:
    """Of one token with one KV head: what products read rounded to a type, float64 between."""

    def rounded(x: NDArray[Any]) -> NDArray[np.float64]:
        return x.astype(products).astype(np.float64)

    cells = step.cells(0)
    k, v = (
        rounded(decode(stored[cells], kv_type))
        for stored, kv_type in ((step.k, step.k_type), (step.v, step.v_type))
    )
    scores = rounded(step.q[0]) @ k.T * float(np.float32(step.scale))
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (rounded(weights) @ v / weights.sum(axis=1, keepdims=True)).astype(np.float32)[None]


@pytest.mark.parametrize("kv_type", [*MATRIX_TYPES, "q8_0:q4_0"])
@pytest.mark.parametrize(("n_past", "n_splits"), [(100, 2), (500, 3)])
def test_error_is_at_most_that_of_rounding_to_f16(kernels, kv_type, n_past, n_splits):
    k_type, _, v_type = kv_type.partition(":")
    ours, plain = [], []
    for seed in range(4):
        model = Model(1, 8, 64, 64, k_type, v_type or k_type)
        step = make_step(model, [Sequence(n_past, 1)], 16, seed)
        exact = step.exact()
        plain.append(with_rounding(step, np.float16) - exact)
        ours.append(attend(kernels, step, n_splits, form="matrices") - exact)
    assert np.abs(ours).max() <= 1.2 * np.abs(plain).max()
    assert np.sqrt(np.square(ours).mean()) <= 1.1 * np.sqrt(np.square(plain).mean())
