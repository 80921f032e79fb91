"""Headers of models that are not here: their shape, at so many bits a weight."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orin_llm.models.shapes import ModelShape


@dataclass(frozen=True)
class Bits:
    """Bits for each weight, scales included: of the layers' matrices, and of the output matrix."""

    layers: float
    output: float


@dataclass(frozen=True)
class ShapedTensor:
    """A tensor that has no data."""

    name: str
    type: str
    shape: Sequence[int]
    offset: int
    nbytes: int


@dataclass(frozen=True)
class ShapedHeader:
    """A header that no file has."""

    metadata: Mapping[str, Any]
    value_types: Mapping[str, int]
    tensors: Sequence[ShapedTensor]


def shaped_header(shape: ModelShape, bits: Bits) -> ShapedHeader:
    """The header of a model of `shape`; norms and other vectors are left out."""
    layer = {
        "attn_q": (shape.n_embd, shape.n_embd),
        "attn_k": (shape.n_embd, shape.n_embd_kv),
        "attn_v": (shape.n_embd, shape.n_embd_kv),
        "attn_output": (shape.n_embd, shape.n_embd),
        "ffn_gate": (shape.n_embd, shape.n_ff),
        "ffn_up": (shape.n_embd, shape.n_ff),
        "ffn_down": (shape.n_ff, shape.n_embd),
    }
    tensors = [
        _tensor(f"blk.{number}.{name}.weight", size, bits.layers)
        for number in range(shape.n_layer)
        for name, size in layer.items()
    ]
    vocabulary = (shape.n_embd, shape.n_vocab)
    tensors.append(_tensor("token_embd.weight", vocabulary, bits.output))
    if not shape.tied_embeddings:
        tensors.append(_tensor("output.weight", vocabulary, bits.output))
    metadata = {
        "general.architecture": "llama",
        "llama.block_count": shape.n_layer,
        "llama.context_length": shape.context_length,
        "llama.embedding_length": shape.n_embd,
        "llama.feed_forward_length": shape.n_ff,
        "llama.attention.head_count": shape.n_head,
        "llama.attention.head_count_kv": shape.n_head_kv,
    }
    return ShapedHeader(metadata, {}, tensors)


def _tensor(name: str, shape: tuple[int, int], bits: float) -> ShapedTensor:
    return ShapedTensor(name, f"{bits:g} bits", shape, 0, round(math.prod(shape) * bits / 8))
