"""A llama of `tiny_llama` in float64, from its definition; its attention may read K and V given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gguf_bytes import Shape, model_tensors
from numpy.typing import NDArray
from rope_formula import NORM, Rope, rotate

Array = NDArray[np.float64]


class Llama:
    """Weights are those of a shape with seed 0, as `tiny_llama` has them."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._weights = {
            tensor.name.removesuffix(".weight"): np.frombuffer(tensor.data or b"", "<f4")
            .reshape(tensor.shape[::-1])
            .astype(np.float64)
            for tensor in model_tensors(shape)
        }

    def embedding(self, tokens: Sequence[int]) -> Array:
        """[n, n_embd]"""
        return self._weights["token_embd"][list(tokens)]

    def keys_and_values(self, layer: int, x: Array) -> tuple[Array, Array]:
        """What positions 0 … n - 1 would have in the cache. x: the layer's input; [n, n_kv] each"""
        normed = self._norm(f"blk.{layer}.attn_norm", x)
        k, v = (normed @ self._weights[f"blk.{layer}.attn_{part}"].T for part in "kv")
        return self._turned(k), v

    def block(self, layer: int, x: Array, k: Array, v: Array) -> Array:
        """What a layer makes of x with these keys and values, causally."""
        n, head, n_head = len(x), self.shape.head, self.shape.n_head
        group = n_head // self.shape.n_head_kv
        normed = self._norm(f"blk.{layer}.attn_norm", x)
        q = self._turned(normed @ self._weights[f"blk.{layer}.attn_q"].T).reshape(n, n_head, head)
        keys, values = (part.reshape(n, -1, head).repeat(group, 1) for part in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, keys) / np.sqrt(head)
        scores[:, ~np.tri(n, dtype=bool)] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        attended = np.einsum("hij,jhd->ihd", weights, values).reshape(n, -1)
        x = x + attended @ self._weights[f"blk.{layer}.attn_output"].T
        normed = self._norm(f"blk.{layer}.ffn_norm", x)
        gate, up = (normed @ self._weights[f"blk.{layer}.ffn_{part}"].T for part in ("gate", "up"))
        return x + (gate / (1 + np.exp(-gate)) * up) @ self._weights[f"blk.{layer}.ffn_down"].T

    def logits(self, x: Array) -> Array:
        """Of what the last layer gives. [n, n_vocab]"""
        return self._norm("output_norm", x) @ self._weights["token_embd"].T

    def _norm(self, name: str, x: Array) -> Array:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * self._weights[name]

    def _turned(self, rows: Array) -> Array:
        n, head = len(rows), self.shape.head
        rope = Rope(NORM, head, head)
        heads = rows.reshape(1, n, -1, head)
        return rotate(rope, heads, np.arange(n, dtype=np.int32)).reshape(n, -1)
