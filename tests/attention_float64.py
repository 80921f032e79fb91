"""Attention over pages in float64, written from its formula, on K and V as they are stored."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from gguf import GGMLQuantizationType, quants
from numpy.typing import NDArray

from orin_llm import _native

KV_TYPES = ("f16", "bf16", "q8_0", "q4_0")

_GGML = {name: GGMLQuantizationType[name.upper()] for name in KV_TYPES}


def encode(values: NDArray[np.float32], kv_type: str) -> NDArray[np.uint8]:
    """[n_cells, n_values] as it is stored: [n_cells, bytes]."""
    return quants.quantize(values, _GGML[kv_type]).view(np.uint8)


def decode(stored: NDArray[np.uint8], kv_type: str) -> NDArray[np.float64]:
    """The values that are stored, exactly. [n_cells, n_values]"""
    if kv_type == "f16":
        return stored.view(np.float16).astype(np.float64)
    return quants.dequantize(stored, _GGML[kv_type]).astype(np.float64)


def poison(kv_type: str, n_bytes: int) -> NDArray[np.uint8]:
    """A cell all of whose values are no numbers. [bytes]"""
    if kv_type in ("f16", "bf16"):
        return np.full(n_bytes, 0xFF, np.uint8)
    block = {"q8_0": 34, "q4_0": 18}[kv_type]
    cell = np.full((n_bytes // block, block), 0x11, np.uint8)
    cell[:, :2] = 0xFF  # the scale
    return cell.reshape(-1)


@dataclass(frozen=True)
class Attention:
    """One step: query tokens over the cells of a pool."""

    q: NDArray[np.float32]  # [n_tokens, n_head, head_dim_k]
    k: NDArray[np.uint8]  # [n_cells, bytes]
    v: NDArray[np.uint8]
    n_head_kv: int
    head_dim_v: int
    page_size: int
    block_tables: NDArray[np.int32]  # [n_rows, max_pages]
    rows: NDArray[np.int32]  # [n_tokens]
    positions: NDArray[np.int32]  # [n_tokens]
    scale: float
    k_type: str = "f16"
    v_type: str = "f16"
    softcap: float = 0.0
    window: int = 0
    sinks: NDArray[np.float32] | None = field(default=None)  # [n_head]

    def probe(self, max_threads: int = 4) -> _native.AttentionProbe:
        return _native.AttentionProbe(**vars(self), max_threads=max_threads)

    def cells(self, token: int) -> NDArray[np.int64]:
        """The cells of the positions that a query token attends to, in their order."""
        position = int(self.positions[token])
        first = max(0, position - self.window + 1) if self.window else 0
        t = np.arange(first, position + 1)
        pages = self.block_tables[self.rows[token], t // self.page_size].astype(np.int64)
        return pages * self.page_size + t % self.page_size

    def exact(self) -> NDArray[np.float64]:
        """[n_tokens, n_head, head_dim_v]"""
        n_tokens, n_head, head_dim_k = self.q.shape
        k = decode(self.k, self.k_type)[:, : self.n_head_kv * head_dim_k]
        v = decode(self.v, self.v_type)[:, : self.n_head_kv * self.head_dim_v]
        k = k.reshape(-1, self.n_head_kv, head_dim_k)
        v = v.reshape(-1, self.n_head_kv, self.head_dim_v)
        group = n_head // self.n_head_kv
        out = np.empty((n_tokens, n_head, self.head_dim_v))
        for token in range(n_tokens):
            cells = self.cells(token)
            for kv_head in range(self.n_head_kv):
                heads = slice(kv_head * group, (kv_head + 1) * group)
                q = self.q[token, heads].astype(np.float64)
                scores = float(np.float32(self.scale)) * (q @ k[cells, kv_head].T)
                if self.softcap:
                    scores = self.softcap * np.tanh(scores / self.softcap)
                sinks = np.full(group, -np.inf) if self.sinks is None else self.sinks[heads]
                largest = np.maximum(scores.max(axis=1), sinks)
                weights = np.exp(scores - largest[:, None])
                total = weights.sum(axis=1) + np.exp(sinks - largest)
                out[token, heads] = weights @ v[cells, kv_head] / total[:, None]
        return out
