"""Rows of logits of many shapes, for the tests of the sampling kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sampling_support import Logits

SHAPES = (
    "normal", "peaked", "flat", "equal", "two values", "few values", "one hot", "denormal", "huge",
    "rising", "falling", "zeros", "negative", "holes",
)  # fmt: skip


# of vocabularies, at and around the sizes of blocks
SIZES = (1, 2, 31, 32, 33, 64, 65, 300, 1000, 2048, 2049)


def logits_of(shape: str, n_vocab: int, seed: int = 0) -> Logits:
    rng = np.random.default_rng(seed)
    normal: NDArray[Any] = rng.normal(0, 3, n_vocab)
    match shape:
        case "peaked":
            normal[rng.integers(n_vocab, size=3)] += 15
        case "flat":
            normal *= 1e-3
        case "equal":
            normal[:] = normal[0]
        case "two values":
            normal = rng.integers(0, 2, n_vocab) * 0.5
        case "few values":
            normal = np.round(normal)
        case "one hot":
            normal[:] = -np.inf
            normal[rng.integers(n_vocab)] = 1
        case "denormal":
            normal *= 1e-45 * rng.choice([1, 100], n_vocab)
        case "huge":
            normal = rng.choice([-3.4e38, -1e38, 3.3e38, 3.4e38], n_vocab)
        case "rising":
            normal = np.arange(n_vocab) / 64
        case "falling":
            normal = -np.arange(n_vocab) / 64
        case "zeros":
            normal = rng.choice([0.0, -0.0], n_vocab)
        case "negative":
            normal -= 1000
        case "holes":
            normal[rng.random(n_vocab) < 0.9] = -np.inf
            normal[0] = -1
    return normal.astype(np.float32)
