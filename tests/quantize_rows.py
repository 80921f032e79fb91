"""Rows of weights to quantize: the same bits on every machine.

They are made of a generator's integers and of products and sums that are exact or rounded once,
without a function of a C library in between.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

TYPES = ("q4_K", "q5_K", "q6_K", "iq4_nl", "iq4_xs")
KINDS = ["normal", "outliers", "above 0", "below 0", "few values", "empty blocks", "flat blocks"]
KINDS += ["far apart", "tiny", "large"]
IMPORTANCES = ["none", "any", "mostly 0", "0"]

Floats = NDArray[np.float32]


def bell(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """About normal, of deviation 1.2: sums of four integers of 16 bits."""
    sums = rng.integers(0, 1 << 16, (4, *shape)).sum(axis=0) - 131_070
    return sums.astype(np.float32) * np.float32(2**-15)


def rows(kind: str) -> Floats:
    """24 rows of 512 weights."""
    rng = np.random.default_rng(len(kind))
    x = bell(rng, (24, 512))
    blocks = x.reshape(-1, 16)
    if kind == "outliers":
        x[rng.random(x.shape) < 0.02] *= 100
    elif kind == "above 0":
        np.abs(x, out=x)
    elif kind == "below 0":
        np.negative(np.abs(x), out=x)
    elif kind == "few values":
        x[:] = rng.integers(-1, 2, x.shape)
    elif kind == "empty blocks":
        blocks[rng.random(len(blocks)) < 0.7] = 0
    elif kind == "flat blocks":
        blocks[:] = rng.integers(-2, 3, (len(blocks), 1))
    elif kind == "far apart":  # the scales of small blocks round to 0 beside the largest
        powers = np.array([1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1], np.float32)
        blocks *= powers[rng.integers(0, 7, (len(blocks), 1))]
    elif kind == "tiny":
        x *= np.float32(1e-36)
    elif kind == "large":
        x *= np.float32(1e5)
    return x


def importance(kind: str, n: int = 512) -> Floats | None:
    """Of each column."""
    rng = np.random.default_rng(n)
    weights = (rng.random(n) ** 2).astype(np.float32)
    if kind == "mostly 0":
        weights[rng.random(n) < 0.9] = 0
    return {"none": None, "0": 0 * weights}.get(kind, weights)
