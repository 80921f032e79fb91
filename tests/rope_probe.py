"""RoPE nodes run by the backend, with a table or without, on inputs that show their rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rope_formula import Rope, pair_channels, unit_pairs

from orin_llm import _native

N_CTX = 131072


def probe(rope: Rope, **options: object) -> _native.testing.RopeProbe:
    p = _native.testing.RopeProbe()
    for name, value in {**vars(rope), **options}.items():
        if name != "head_dim":
            setattr(p, name, list(value) if isinstance(value, tuple) else value)
    return p


def with_table(n_ctx: int = N_CTX) -> _native.testing.EngineHooks:
    return _native.testing.EngineHooks(rope=True, n_ctx=n_ctx)


def stock() -> _native.testing.EngineHooks:
    return _native.testing.EngineHooks(rope=False, n_ctx=N_CTX)


def random_x(rope: Rope, n_tokens: int, n_head: int = 3, n_batch: int = 1) -> NDArray[np.float32]:
    shape = (n_batch, n_tokens, n_head, rope.head_dim)
    return np.random.default_rng(7).standard_normal(shape, np.float32)


def rows(hooks: _native.testing.EngineHooks, rope: Rope, positions: NDArray[np.int32]) -> NDArray:
    """The (cos, sin) that the backend used. [n_tokens, n_pairs, 2]"""
    out = hooks.run_rope(unit_pairs(rope, positions.shape[-1]), positions, probe(rope))
    first, second = pair_channels(rope)
    return np.stack([out[0, :, 0, first], out[0, :, 0, second]], axis=-1).transpose(1, 0, 2)
