"""The llama architecture in float64 NumPy: what a file computes, free of any engine's rounding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from orin_llm._native import check_gguf

Array = NDArray[np.float64]


def logits(path: Path, texts: Sequence[Sequence[int]]) -> Array:
    """Logits at every position of every text, one text after the other: [n_positions, n_vocab]."""
    metadata = check_gguf(path).metadata
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    n_head = metadata["llama.attention.head_count"]
    n_head_kv = metadata["llama.attention.head_count_kv"]
    epsilon = metadata["llama.attention.layer_norm_rms_epsilon"]
    base = metadata["llama.rope.freq_base"]
    ends = np.cumsum([len(text) for text in texts])[:-1]

    def weights(name: str) -> Array:
        tensor = tensors[name]
        return gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float64)

    def project(x: Array, name: str) -> Array:
        bias = weights(name + ".bias") if name + ".bias" in tensors else 0.0
        return x @ weights(name + ".weight").T + bias

    def norm(x: Array, name: str) -> Array:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weights(name)

    def attention(x: Array, block: str) -> Array:
        q, k, v = (np.split(project(x, f"{block}attn_{name}"), ends) for name in "qkv")
        mixed = [attend(*each, n_head, n_head_kv, base) for each in zip(q, k, v, strict=True)]
        return project(np.concatenate(mixed), block + "attn_output")

    def feed_forward(x: Array, block: str) -> Array:
        gate, up = project(x, block + "ffn_gate"), project(x, block + "ffn_up")
        return project(gate / (1.0 + np.exp(-gate)) * up, block + "ffn_down")

    embeddings = weights("token_embd.weight")
    x = embeddings[np.concatenate(texts)]
    for layer in range(metadata["llama.block_count"]):
        block = f"blk.{layer}."
        x = x + attention(norm(x, block + "attn_norm.weight"), block)
        x = x + feed_forward(norm(x, block + "ffn_norm.weight"), block)
    output = weights("output.weight") if "output.weight" in tensors else embeddings
    return norm(x, "output_norm.weight") @ output.T


def attend(q: Array, k: Array, v: Array, n_head: int, n_head_kv: int, base: float) -> Array:
    """Causal attention over one text. q: [n, n_head * head_dim]; k, v: [n, n_head_kv * head_dim]"""
    n = len(q)

    def heads(x: Array, count: int) -> Array:
        return x.reshape(n, count, -1).transpose(1, 0, 2)  # [count, n, head_dim]

    group = n_head // n_head_kv
    turned_q = rope(heads(q, n_head), base)
    turned_k = np.repeat(rope(heads(k, n_head_kv), base), group, axis=0)
    scores = turned_q @ turned_k.transpose(0, 2, 1) / np.sqrt(turned_q.shape[-1])
    scores[:, np.triu(np.ones((n, n), dtype=bool), 1)] = -np.inf
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    mixed = shares @ np.repeat(heads(v, n_head_kv), group, axis=0)
    return mixed.transpose(1, 0, 2).reshape(n, -1)


def rope(x: Array, base: float) -> Array:
    """Turns neighbouring pairs, as in converted llama files. x: [n_head, n, head_dim]"""
    angles = np.arange(x.shape[1])[:, None] * base ** (-np.arange(0, x.shape[2], 2) / x.shape[2])
    turned = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
    return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)
