"""Rows of activations as cuda/activation_rows.h lays them out, and the values of their bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]

# As RowFormat numbers them.
F32, INT8, F16 = range(3)
GROUP = 32
GROUP_BYTES = 16


def row_bytes(row_format: int, n_values: int) -> int:
    """Of a token."""
    if row_format == INT8:
        return n_values + n_values // GROUP * GROUP_BYTES
    return 4 * n_values if row_format == F32 else 2 * n_values + 16


def make_rows(row_format: int, x: NDArray[np.float32]) -> Bytes:
    """[n_tokens, row_bytes] of x [n_tokens, n_values]."""
    n_tokens, n_values = x.shape
    rows = np.zeros((n_tokens, row_bytes(row_format, n_values)), np.uint8)
    if row_format == F32:
        rows[:] = np.ascontiguousarray(x).view(np.uint8)
    elif row_format == F16:
        rows[:, : 2 * n_values] = x.astype("<f2").view(np.uint8)
        rows[:, 2 * n_values : 2 * n_values + 4] = np.array([1], "<f4").view(np.uint8)
    else:
        groups = x.reshape(n_tokens, -1, GROUP)
        scales = np.abs(groups).max(axis=-1) / np.float32(127)
        quants = np.rint(groups / np.where(scales == 0, 1, scales)[..., None]).astype(np.int8)
        sums = scales[..., None] * quants.reshape(*groups.shape[:2], 2, -1).sum(axis=-1)
        tails = np.zeros((*groups.shape[:2], 4), "<f4")
        tails[..., 0], tails[..., 1:3] = scales, sums
        rows[:, :n_values] = quants.reshape(n_tokens, -1).view(np.uint8)
        rows[:, n_values:] = tails.reshape(n_tokens, -1).view(np.uint8)
    return rows


def read_rows(row_format: int, rows: Bytes, n_values: int) -> Floats:
    """[n_tokens, n_values]"""
    if row_format == F32:
        return np.ascontiguousarray(rows).view("<f4").astype(np.float64)
    if row_format == F16:
        halves = np.ascontiguousarray(rows[:, : 2 * n_values]).view("<f2").astype(np.float64)
        factors = np.ascontiguousarray(rows[:, 2 * n_values : 2 * n_values + 4]).view("<f4")
        scaled: Floats = halves * factors
        return scaled
    quants = rows[:, :n_values].view(np.int8).reshape(len(rows), -1, GROUP)
    tails = np.ascontiguousarray(rows[:, n_values:]).view("<f4").reshape(len(rows), -1, 4)
    values: Floats = quants * tails[..., :1].astype(np.float64)
    return values.reshape(len(rows), n_values)
