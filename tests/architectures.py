"""Tiny models of architectures whose products of weights our kernels compute, as GGUF bytes.

Weights are random quantized rows; `exact` has the same values in F32, which llama.cpp multiplies
in float: what both forms of a quantized product come near to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from gguf_bytes import (
    F32,
    Image,
    Shape,
    Tensor,
    Typed,
    f32,
    model_metadata,
    spm_vocab,
    u32,
    write_gguf,
)
from weight_blocks import random_weights

TYPE_IDS = {"f16": 1, "q4_0": 2, "q4_1": 3, "q8_0": 8, "q4_K": 12, "q5_K": 13, "q6_K": 14}
Q4_K_M = {"": "q4_K", "attn_v": "q6_K", "ffn_down": "q6_K", "token_embd": "q6_K"}
WINDOW = 24


@dataclass(frozen=True)
class Architecture:
    """Sizes, and what its layers have: matrices [values, rows], norms and biases [values]."""

    shape: Shape
    matrices: Mapping[str, tuple[int, int]]
    vectors: Mapping[str, int]
    numbers: Mapping[str, Typed]
    has_output: bool = False  # a matrix of its own, or the table of tokens

    def image(self, types: Mapping[str, str] | str = "q8_0", exact: bool = False) -> Image:
        """A file. types: of weights by the names of their tensors, "" of the others."""
        arch, shape = self.shape.arch, self.shape
        named = {"": types} if isinstance(types, str) else types
        sizes: dict[str, tuple[int, ...]] = {
            "token_embd": (shape.n_embd, shape.n_vocab),
            "output_norm": (shape.n_embd,),
        }
        if self.has_output:
            sizes["output"] = (shape.n_embd, shape.n_vocab)
        for layer in range(shape.n_layer):
            sizes |= {f"blk.{layer}.{name}": size for name, size in self.matrices.items()}
            sizes |= {f"blk.{layer}.{name}": (size,) for name, size in self.vectors.items()}
        tensors = []
        for name, size in sizes.items():
            short = name.rpartition(".")[2] if not name.endswith("bias") else name
            kind = named.get(short, named[""])
            tensors.append(_tensor(name, size, kind, exact))
        entries = {
            **model_metadata(shape),
            **{f"{arch}.{key}": value for key, value in self.numbers.items()},
            **spm_vocab(shape.n_vocab),
        }
        return write_gguf(entries, tensors)


def _tensor(name: str, size: tuple[int, ...], kind: str, exact: bool) -> Tensor:
    rng = np.random.default_rng(list(name.encode()))
    if len(size) == 1:
        is_bias = name.endswith("bias")
        values = rng.normal(0.0, 0.3, size) if is_bias else rng.uniform(0.5, 1.5, size)
        full = name if is_bias else f"{name}.weight"
        return Tensor(full, size, F32, values.astype("<f4").tobytes())
    weights = random_weights(rng, kind, n_rows=size[1], n_values=size[0])
    if exact:
        return Tensor(f"{name}.weight", size, F32, weights.values.astype("<f4").tobytes())
    return Tensor(f"{name}.weight", size, TYPE_IDS[kind], weights.rows.tobytes())


SHAPE = Shape(n_embd=256, n_head=4, n_head_kv=2, n_ff=256)


def _plain(
    shape: Shape,
    vectors: Mapping[str, int] | None = None,
    numbers: Mapping[str, Typed] | None = None,
    has_output: bool = False,
) -> Architecture:
    """Projections, a gate, and norms before attention and before the gate."""
    embd, kv, ff = shape.n_embd, shape.n_head_kv * shape.head, shape.n_ff
    matrices = {
        "attn_q": (embd, embd),
        "attn_k": (embd, kv),
        "attn_v": (embd, kv),
        "attn_output": (embd, embd),
        "ffn_gate": (embd, ff),
        "ffn_up": (embd, ff),
        "ffn_down": (ff, embd),
    }
    norms = {"attn_norm": embd, "ffn_norm": embd}
    return Architecture(shape, matrices, norms | dict(vectors or {}), numbers or {}, has_output)


def llama() -> Architecture:
    return _plain(SHAPE, has_output=True)


def mistral() -> Architecture:
    return _plain(replace(SHAPE, arch="mistral3", n_head_kv=1))


def qwen2() -> Architecture:
    """Q, K and V have biases; the output matrix is the table of tokens."""
    kv = SHAPE.n_head_kv * SHAPE.head
    biases = {"attn_q.bias": SHAPE.n_embd, "attn_k.bias": kv, "attn_v.bias": kv}
    return _plain(replace(SHAPE, arch="qwen2"), biases)


def qwen3() -> Architecture:
    """Heads of Q and K are normed before RoPE."""
    norms = {"attn_q_norm": SHAPE.head, "attn_k_norm": SHAPE.head}
    return _plain(replace(SHAPE, arch="qwen3"), norms)


def _gemma(arch: str, norms: Mapping[str, int], numbers: Mapping[str, Typed]) -> Architecture:
    post = {"post_attention_norm": SHAPE.n_embd, "post_ffw_norm": SHAPE.n_embd}
    window = {"attention.sliding_window": u32(WINDOW)}
    return _plain(replace(SHAPE, arch=arch), post | dict(norms), window | dict(numbers))


def gemma2() -> Architecture:
    """Norms behind attention and gate, too; scores and logits are capped."""
    return _gemma(
        "gemma2",
        {},
        {"attn_logit_softcapping": f32(2.0), "final_logit_softcapping": f32(30.0)},
    )


def gemma3() -> Architecture:
    norms = {"attn_q_norm": SHAPE.head, "attn_k_norm": SHAPE.head}
    pattern = {"attention.sliding_window_pattern": u32(2)}
    return _gemma("gemma3", norms, pattern)


def phi3() -> Architecture:
    """Q, K and V are one matrix, and so are gate and up."""
    shape = replace(SHAPE, arch="phi3")
    embd, kv, ff = shape.n_embd, shape.n_head_kv * shape.head, shape.n_ff
    matrices = {
        "attn_qkv": (embd, embd + 2 * kv),
        "attn_output": (embd, embd),
        "ffn_up": (embd, 2 * ff),
        "ffn_down": (ff, embd),
    }
    return Architecture(shape, matrices, {"attn_norm": embd, "ffn_norm": embd}, {})
