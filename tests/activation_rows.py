"""Rows of activations as bytes, read and written by their description in cuda/activation_rows.h."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]

# As RowFormat numbers them.
F32, INT8, F16 = 0, 1, 2
GROUP = 32


def row_bytes(row_format: int, n_values: int) -> int:
    if row_format == INT8:
        return n_values + n_values // GROUP * 16
    return 4 * n_values if row_format == F32 else 2 * n_values + 16


def read_rows(rows: Bytes, row_format: int) -> Floats:
    """What rows [n_rows, bytes of a row] stand for, [n_rows, n_values].

    That the sums of int8 rows are right is asserted along.
    """
    if row_format == F32:
        return rows.view("<f4").astype(np.float64)
    if row_format == F16:
        values, factors = rows[:, :-16].view("<f2"), rows[:, -16:-12].view("<f4")
        return values.astype(np.float64) * factors
    n_values = rows.shape[1] // 3 * 2
    quants = rows[:, :n_values].view(np.int8).reshape(len(rows), -1, GROUP).astype(np.float64)
    groups = rows[:, n_values:].view("<f4").reshape(len(rows), -1, 4).astype(np.float64)
    scales, sums = groups[..., :1], groups[..., 1:3]
    halves = quants.reshape(*quants.shape[:2], 2, GROUP // 2).sum(axis=-1)
    np.testing.assert_allclose(sums, scales * halves, rtol=1e-6)
    return (quants * scales).reshape(len(rows), n_values)


def write_rows(x: NDArray[np.floating], row_format: int) -> Bytes:
    """Rows of x [n_rows, n_values], rounded as our kernels round. x: finite"""
    n_rows, n_values = x.shape
    floats = x.astype(np.float32)
    if row_format == F32:
        return floats.view(np.uint8)
    rows = np.zeros((n_rows, row_bytes(row_format, n_values)), np.uint8)
    if row_format == F16:
        largest = np.maximum(np.abs(floats).max(axis=1, keepdims=True), 2.0**-100)
        factors = 2.0 ** (np.floor(np.log2(largest)) - 14)
        rows[:, :-16] = (floats / factors).astype("<f2").view(np.uint8)
        rows[:, -16:-12] = factors.astype("<f4").view(np.uint8)
        return rows
    groups = floats.reshape(n_rows, -1, GROUP)
    scales = np.abs(groups).max(axis=-1, keepdims=True) / np.float32(127)
    quants = np.rint(np.divide(groups, scales, out=np.zeros_like(groups), where=scales != 0))
    halves = quants.reshape(n_rows, -1, 2, GROUP // 2).sum(axis=-1)
    parts = np.concatenate((scales, scales * halves, np.zeros_like(scales)), axis=-1)
    rows[:, :n_values] = quants.reshape(n_rows, n_values).astype(np.int8).view(np.uint8)
    rows[:, n_values:] = parts.astype("<f4").reshape(n_rows, -1).view(np.uint8)
    return rows


def assert_rows(rows: Bytes, row_format: int, exact: Floats, inexact: float = 1e-6) -> None:
    """That rows stand for `exact`, rounded once. inexact: error before that, as a part of a value.

    int8: half a step of the group's scale, which is 1/127 of its largest; f16: half of 2^-10, or
    2^-25 of the row's largest where values are so small that f16 has fewer bits.
    """
    found = read_rows(rows, row_format)
    size = np.abs(exact)
    error = inexact * size
    if row_format == INT8:
        groups = size.reshape(len(size), -1, GROUP)
        step = groups.max(axis=-1, keepdims=True) / 127
        error = error + np.broadcast_to((0.5 + 127 * 1e-6) * step, groups.shape).reshape(size.shape)
    elif row_format == F16:
        error = error + np.maximum(size * 2.0**-11, size.max(axis=1, keepdims=True) * 2.0**-38)
    assert (np.abs(found - exact) <= error + 2.0**-119).all()
