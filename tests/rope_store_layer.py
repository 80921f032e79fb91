"""A layer from its projections to its attention as llama.cpp builds it, and RoPE on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rope_formula import Rope
from rope_probe import probe as rope_probe

from orin_llm import _native


def layer(rope: Rope, **options: Any) -> _native.testing.RopeStoreProbe:
    """With the rotations that upstream makes for these types, unless others are asked for."""
    made = _native.testing.RopeStoreProbe()
    made.rope = rope_probe(rope)
    made.head_dim_k = made.head_dim_v = rope.head_dim
    for name, value in options.items():
        setattr(made, name, value)
    for kind, size, rotation in (
        (made.k_type, made.head_dim_k, "k_rotation"),
        (made.v_type, made.head_dim_v, "v_rotation"),
    ):
        if kind in ("q8_0", "q4_0") and size % 64 == 0 and rotation not in options:
            setattr(made, rotation, 64 if rotation == "v_rotation" else size & -size)
    return made


def hadamard(x: NDArray[Any], size: int) -> NDArray[np.float64]:
    """Groups of the last axis by the orthonormal matrix of Sylvester; size 0: as they are."""
    if size == 0:
        return x.astype(np.float64)
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    groups = x.astype(np.float64).reshape(*x.shape[:-1], -1, size)
    return (groups @ matrix / np.sqrt(size)).reshape(x.shape)
