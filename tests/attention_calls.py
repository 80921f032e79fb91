"""Calling paged attention from tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from activation_rows import F32, read_rows
from attention_cases import pool
from attention_float64 import Attention
from kernel_calls import Kernels
from numpy.typing import NDArray

# V is near 1: rounding leaves 1e-7 of float32; a position too few changes 1e-3 or more, one too
# many is no number. Queries, weights and quantized values as f16 are off by up to 2^-12 of
# themselves: a result, which is a mean of many, by some 1e-4, and by several times that where a
# window leaves few.
TOLERANCE = {"floats": 2e-6, "matrices": 2e-3, "fastest": 2e-3}
MATRIX_TYPES = ("f16", "q8_0", "q4_0")


def attend(
    kernels: Kernels,
    step: Attention,
    n_splits: int = 1,
    tokens_per_block: int = 1,
    n_launches: int = 1,
    order: int = 0,
    missing: str = "",
    form: str = "fastest",
    row_format: int = F32,
    **changed: Any,
) -> NDArray[np.float64]:
    """[n_tokens, n_head, head_dim_v]"""
    n_tokens, n_head, head_dim_k = step.q.shape
    q = np.full((n_tokens, n_head + 1, head_dim_k + 3), np.nan, np.float32)
    q[:, :n_head, :head_dim_k] = step.q
    kernels.set_seed(seed=order)
    rows = kernels.paged_attention(
        fields=pool(step, **changed), n_head=n_head, q=q, scale=step.scale, softcap=step.softcap,
        window=step.window, sinks=step.sinks, tokens_per_block=tokens_per_block,
        n_splits=n_splits, n_launches=n_launches, missing=missing,
        form=form, row_format=row_format,
    )  # fmt: skip
    return read_rows(rows, row_format).reshape(n_tokens, n_head, step.head_dim_v)
