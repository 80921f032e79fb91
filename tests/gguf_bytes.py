"""Tiny models and vocabularies as GGUF bytes, sound or with something changed.

`tiny_llama()` is a loadable model of a few hundred kilobytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gguf_writer import (
    BLOCKS,
    F16,
    F32,
    I32,
    I64,
    NVFP4,
    Q4_0,
    Q4_K,
    Q8_0,
    Q8_K,
    Image,
    Tensor,
    Typed,
    array,
    boolean,
    f32,
    string,
    u32,
    write_gguf,
)

__all__ = [
    "BLOCKS",
    "F16",
    "F32",
    "I32",
    "I64",
    "NVFP4",
    "Q4_0",
    "Q4_K",
    "Q8_0",
    "Q8_K",
    "Image",
    "Shape",
    "Tensor",
    "Typed",
    "array",
    "boolean",
    "bpe_vocab",
    "f32",
    "model_metadata",
    "model_tensors",
    "spm_vocab",
    "string",
    "tiny_experts",
    "tiny_latent",
    "tiny_llama",
    "tiny_llama_bytes",
    "u32",
    "vocab_only",
    "write_gguf",
]


def spm_vocab(n_vocab: int) -> dict[str, Typed]:
    """A SentencePiece vocabulary: the special tokens, the bytes if they fit, then made-up words."""
    tokens = ["<unk>", "<s>", "</s>"]
    kinds = [2, 3, 3]
    if n_vocab >= 259:
        tokens += [f"<0x{byte:02X}>" for byte in range(256)]
        kinds += [6] * 256
    letters = "\u2581abcdefghijklmnopqrstuvwxyz"
    words = list(letters) + [a + b for a in letters for b in letters[1:]]
    words = words[: n_vocab - len(tokens)]
    tokens += words
    kinds += [1] * len(words)
    return {
        "tokenizer.ggml.model": string("llama"),
        "tokenizer.ggml.tokens": array("string", tokens),
        "tokenizer.ggml.scores": array("f32", [-float(i) for i in range(n_vocab)]),
        "tokenizer.ggml.token_type": array("i32", kinds),
        "tokenizer.ggml.bos_token_id": u32(1),
        "tokenizer.ggml.eos_token_id": u32(2),
        "tokenizer.ggml.unknown_token_id": u32(0),
    }


def bpe_vocab(n_vocab: int) -> dict[str, Typed]:
    """A byte-level vocabulary of letters and pairs of letters, with their merges."""
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pairs = [(a, b) for a in letters for b in letters]
    tokens = ["<|endoftext|>", "\u010a", "\u0120", *letters, *(a + b for a, b in pairs)][:n_vocab]
    return {
        "tokenizer.ggml.model": string("gpt2"),
        "tokenizer.ggml.pre": string("smollm"),
        "tokenizer.ggml.tokens": array("string", tokens),
        "tokenizer.ggml.token_type": array("i32", [3] + [1] * (len(tokens) - 1)),
        "tokenizer.ggml.merges": array("string", [f"{a} {b}" for a, b in pairs if a + b in tokens]),
        "tokenizer.ggml.bos_token_id": u32(0),
        "tokenizer.ggml.eos_token_id": u32(0),
    }


@dataclass(frozen=True)
class Shape:
    """The sizes of a tiny model."""

    arch: str = "llama"
    n_layer: int = 2
    n_embd: int = 64
    n_head: int = 4
    n_head_kv: int = 2
    n_ff: int = 96
    n_vocab: int = 300
    n_ctx: int = 256

    @property
    def head(self) -> int:
        return self.n_embd // self.n_head


def model_metadata(shape: Shape) -> dict[str, Typed]:
    arch = shape.arch
    return {
        "general.architecture": string(arch),
        "general.name": string("tiny"),
        f"{arch}.context_length": u32(shape.n_ctx),
        f"{arch}.embedding_length": u32(shape.n_embd),
        f"{arch}.block_count": u32(shape.n_layer),
        f"{arch}.feed_forward_length": u32(shape.n_ff),
        f"{arch}.attention.head_count": u32(shape.n_head),
        f"{arch}.attention.head_count_kv": u32(shape.n_head_kv),
        f"{arch}.attention.layer_norm_rms_epsilon": f32(1e-5),
        f"{arch}.rope.dimension_count": u32(shape.head),
        f"{arch}.rope.freq_base": f32(10000.0),
    }


def _layer_shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    embd, kv, ff = shape.n_embd, shape.n_head_kv * shape.head, shape.n_ff
    layer: dict[str, tuple[int, ...]] = {
        "attn_norm": (embd,),
        "attn_q": (embd, embd),
        "attn_k": (embd, kv),
        "attn_v": (embd, kv),
        "attn_output": (embd, embd),
        "ffn_norm": (embd,),
        "ffn_gate": (embd, ff),
        "ffn_up": (embd, ff),
        "ffn_down": (ff, embd),
    }
    if shape.arch in ("qwen3", "gemma3"):
        layer |= {"attn_q_norm": (shape.head,), "attn_k_norm": (shape.head,)}
    if shape.arch in ("gemma2", "gemma3"):
        layer |= {"post_attention_norm": (embd,), "post_ffw_norm": (embd,)}
    if shape.arch == "phi3":
        for name in ("attn_q", "attn_k", "attn_v", "ffn_gate"):
            del layer[name]
        layer |= {"attn_qkv": (embd, embd + 2 * kv), "ffn_up": (embd, 2 * ff)}
    return layer


def model_tensors(shape: Shape, seed: int = 0) -> list[Tensor]:
    """Random weights that keep activations near 1; the output matrix is the embedding."""
    rng = np.random.default_rng(seed)
    sizes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (shape.n_embd, shape.n_vocab),
        "output_norm.weight": (shape.n_embd,),
    }
    for layer in range(shape.n_layer):
        for name, size in _layer_shapes(shape).items():
            sizes[f"blk.{layer}.{name}.weight"] = size
    return [_random(name, size, rng) for name, size in sizes.items()]


def _random(name: str, size: tuple[int, ...], rng: np.random.Generator) -> Tensor:
    if len(size) == 1:
        return Tensor(name, size, F32, np.ones(size, dtype="<f4").tobytes())
    values = rng.standard_normal(math.prod(size)) / math.sqrt(size[0])
    return Tensor(name, size, F32, values.astype("<f4").tobytes())


def tiny_llama(
    *,
    shape: Shape | None = None,
    metadata: Mapping[str, Typed | None] | None = None,
    tensors: Mapping[str, Tensor | None] | None = None,
    vocab: Mapping[str, Typed] | None = None,
    seed: int = 0,
    **sizes: Any,
) -> Image:
    """A model that llama.cpp loads and runs.

    metadata and tensors replace entries by name, or drop them (None), or add them; sizes are the
    fields of Shape.
    """
    shape = shape or Shape(**sizes)
    entries: dict[str, Typed] = {
        **model_metadata(shape),
        **(spm_vocab(shape.n_vocab) if vocab is None else vocab),
    }
    table = {tensor.name: tensor for tensor in model_tensors(shape, seed)}
    _apply(entries, metadata or {})
    _apply(table, tensors or {})
    return write_gguf(entries, list(table.values()))


def tiny_experts(arch: str = "llama", n_expert: int = 4, ff: int = 96) -> Image:
    """A model with experts instead of a feed-forward network, of an architecture with such."""
    shape = Shape(arch=arch, n_ff=ff)
    new = {
        "ffn_gate_inp": (shape.n_embd, n_expert),
        "ffn_gate_exps": (shape.n_embd, ff, n_expert),
        "ffn_up_exps": (shape.n_embd, ff, n_expert),
        "ffn_down_exps": (ff, shape.n_embd, n_expert),
    }
    if arch == "qwen3moe":
        new |= {"attn_q_norm": (shape.head,), "attn_k_norm": (shape.head,)}
    tensors: dict[str, Tensor | None] = {}
    for layer in range(shape.n_layer):
        prefix = f"blk.{layer}."
        for name, size in new.items():
            tensors[f"{prefix}{name}.weight"] = Tensor(f"{prefix}{name}.weight", size)
        for name in ("ffn_gate", "ffn_up", "ffn_down"):
            tensors[f"{prefix}{name}.weight"] = None
    metadata: dict[str, Typed | None] = {
        f"{arch}.expert_count": u32(n_expert),
        f"{arch}.expert_used_count": u32(2),
        f"{arch}.expert_feed_forward_length": u32(ff),
    }
    return tiny_llama(shape=shape, metadata=metadata, tensors=tensors)


def tiny_latent(rank: int = 32, part: int = 16) -> Image:
    """A deepseek2 model whose cache holds compressed keys, values among them (MLA).

    rank: of what is kept for all heads; part: size of a head's rotated and of its other half.
    """
    shape = Shape(arch="deepseek2", n_head_kv=1)
    new = {
        "attn_kv_a_norm": (rank,),
        "attn_q": (shape.n_embd, shape.n_head * 2 * part),
        "attn_kv_a_mqa": (shape.n_embd, rank + part),
        "attn_k_b": (part, rank, shape.n_head),
        "attn_v_b": (rank, shape.head, shape.n_head),
    }
    tensors: dict[str, Tensor | None] = {}
    for layer in range(shape.n_layer):
        for name, size in new.items():
            full = f"blk.{layer}.{name}.weight"
            tensors[full] = _random(full, size, np.random.default_rng(len(tensors)))
        for name in ("attn_k", "attn_v"):
            tensors[f"blk.{layer}.{name}.weight"] = None
    numbers = {
        "attention.q_lora_rank": 0,
        "attention.kv_lora_rank": rank,
        "attention.key_length": rank + part,
        "attention.value_length": rank,
        "attention.key_length_mla": 2 * part,
        "attention.value_length_mla": shape.head,
        "rope.dimension_count": part,
        "leading_dense_block_count": shape.n_layer,
        "expert_feed_forward_length": shape.n_ff,
        "expert_shared_count": 1,
    }
    metadata = {f"{shape.arch}.{key}": u32(value) for key, value in numbers.items()}
    return tiny_llama(shape=shape, metadata=metadata, tensors=tensors)


def tiny_llama_bytes(**changes: Any) -> bytes:
    """The bytes of `tiny_llama(**changes)`."""
    return tiny_llama(**changes).data


def vocab_only(vocab: Mapping[str, Typed] | None = None) -> Image:
    """A file that holds a vocabulary and no tensors."""
    entries = {"general.architecture": string("llama"), **(vocab or spm_vocab(300))}
    return write_gguf(entries)


def _apply(entries: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        if value is None:
            del entries[name]
        else:
            entries[name] = value
