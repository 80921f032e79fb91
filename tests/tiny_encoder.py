"""A BERT of two layers with random weights: a model that keeps no memory of a text."""

from __future__ import annotations

import math

import numpy as np
from gguf_bytes import spm_vocab
from gguf_writer import Image, Tensor, boolean, f32, string, u32, write_gguf

WIDTH, FF, VOCAB = 64, 96, 300


def tiny_encoder() -> Image:
    rng = np.random.default_rng(1)

    def random(name: str, *size: int) -> Tensor:
        values = rng.standard_normal(math.prod(size)) / math.sqrt(size[0])
        return Tensor(name, size, 0, values.astype("<f4").tobytes())

    def with_bias(name: str, *size: int) -> list[Tensor]:
        return [random(f"{name}.weight", *size), random(f"{name}.bias", size[-1])]

    tensors = [
        random("token_embd.weight", WIDTH, VOCAB),
        random("position_embd.weight", WIDTH, 256),
        random("token_types.weight", WIDTH, 2),
        *with_bias("token_embd_norm", WIDTH),
    ]
    for layer in ("blk.0.", "blk.1."):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensors += with_bias(layer + name, WIDTH, WIDTH)
        tensors += with_bias(layer + "ffn_up", WIDTH, FF)
        tensors += with_bias(layer + "ffn_down", FF, WIDTH)
        tensors += with_bias(layer + "attn_output_norm", WIDTH)
        tensors += with_bias(layer + "layer_output_norm", WIDTH)
    metadata = {
        "general.architecture": string("bert"),
        "bert.context_length": u32(256),
        "bert.embedding_length": u32(WIDTH),
        "bert.block_count": u32(2),
        "bert.feed_forward_length": u32(FF),
        "bert.attention.head_count": u32(4),
        "bert.attention.layer_norm_epsilon": f32(1e-5),
        "bert.attention.causal": boolean(False),
        "bert.pooling_type": u32(1),
        "tokenizer.ggml.token_type_count": u32(2),
    }
    return write_gguf(metadata | spm_vocab(VOCAB), tensors)
