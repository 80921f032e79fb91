"""What an engine's KV cache holds of tokens, as numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attention_float64 import decode
from completions import finish, start
from numpy.typing import NDArray
from rope_store_layer import hadamard

from orin_llm.engine import Engine
from orin_llm.gguf.kv_layers import kv_layers
from orin_llm.gguf.kv_types import KvType

Array = NDArray[np.float64]


def stored_rows(engine: Engine, tokens: Sequence[int]) -> list[tuple[Array, Array]]:
    """K and V of each layer, decoded: [tokens in whole pages, elements]."""
    finish(start(engine, list(tokens), 1))
    data = np.frombuffer(engine.read_kv(list(tokens), 0, len(tokens)), np.uint8)
    rows = data.reshape(-1, engine.kv_row_bytes)
    types = engine.config.kv_types
    result = []
    for layer in kv_layers(engine.header):
        parts = []
        for kind, elements in ((types.k, layer.k_elements), (types.v, layer.v_elements)):
            n_bytes = kind.row_bytes(elements)
            parts.append(decode(np.ascontiguousarray(rows[:, :n_bytes]), kind.name))
            rows = rows[:, n_bytes:]
        result.append((parts[0], parts[1]))
    assert rows.shape[1] == 0
    return result


def turned(kind: KvType, values: Array) -> Array:
    """Heads of 64 as llama.cpp stores them, and from there back: quantized types are rotated."""
    return hadamard(values, 64 if kind.block_elements > 1 else 0)


def rounding_of(kind: KvType, exact: Array) -> Array:
    """The most by which a stored value differs from an exact one, as ggml defines the type.

    Half a step: of a block of 32, the largest magnitude / 127 or / 8. On the side of q4_0 that has
    seven steps it may be a whole one. Scales are of f16, and what is rounded of float32.
    """
    if kind.block_elements == 1:
        return np.abs(exact) * (2.0**-8 if kind.name == "bf16" else 2.0**-11) + 1e-5
    largest = np.abs(exact.reshape(len(exact), -1, 32)).max(-1).repeat(32, -1)
    return largest * ((0.5 / 127 if kind.name == "q8_0" else 1 / 8) + 2.0**-10)
