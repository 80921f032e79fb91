"""Tiny models whose layers, or some of them, attend to a sliding window."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from gguf_bytes import F32, Image, Shape, Tensor, Typed, array, f32, tiny_llama, u32

WINDOW = 24


def _random(name: str, size: tuple[int, ...]) -> Tensor:
    rng = np.random.default_rng(list(name.encode()))
    scale = 1.0 / math.sqrt(size[0]) if len(size) > 1 else 1.0
    if name.endswith(("_q_norm.weight", "_k_norm.weight")):
        scale = 0.4  # some models do not scale scores
    values = scale * rng.standard_normal(math.prod(size))
    return Tensor(name, size, F32, values.astype("<f4").tobytes())


def _model(
    shape: Shape,
    numbers: Mapping[str, Typed],
    new: Mapping[str, tuple[int, ...]] | None = None,
    gone: tuple[str, ...] = (),
    model_tensors: Mapping[str, tuple[int, ...]] | None = None,
) -> Image:
    """`new` and `gone` are tensors of every layer."""
    tensors: dict[str, Tensor | None] = {}
    for layer in range(shape.n_layer):
        for name, size in (new or {}).items():
            full = f"blk.{layer}.{name}"
            tensors[full] = _random(full, size)
        for name in gone:
            tensors[f"blk.{layer}.{name}.weight"] = None
    for name, size in (model_tensors or {}).items():
        tensors[name] = _random(name, size)
    metadata = {f"{shape.arch}.{key}": value for key, value in numbers.items()}
    return tiny_llama(shape=shape, metadata=metadata, tensors=tensors)


def _slides(window: int, pattern: int | list[bool]) -> dict[str, Typed]:
    return {
        "attention.sliding_window": u32(window),
        "attention.sliding_window_pattern": array("bool", pattern)
        if isinstance(pattern, list)
        else u32(pattern),
    }


def gemma3(window: int = WINDOW, pattern: int = 3) -> Image:
    """Every pattern-th layer attends to everything; with 0, none does. Heads of 64."""
    shape = Shape(arch="gemma3", n_layer=3, n_embd=128, n_head=2, n_head_kv=1)
    return _model(shape, _slides(window, pattern) | {"rope.freq_base_swa": f32(1000.0)})


def gemma2(window: int = WINDOW) -> Image:
    """Scores are capped."""
    shape = Shape(arch="gemma2", n_embd=128, n_head=2, n_head_kv=1)
    return _model(shape, _slides(window, 2) | {"attn_logit_softcapping": f32(2.0)})


def cohere2(window: int = WINDOW) -> Image:
    """Layers without a window have no RoPE."""
    shape = Shape(arch="cohere2", n_embd=128, n_head=4)
    numbers = {"logit_scale": f32(1.0), "attention.layer_norm_epsilon": f32(1e-5)}
    return _model(shape, _slides(window, 2) | numbers, gone=("ffn_norm",))


def gpt_oss(window: int = WINDOW, n_expert: int = 4) -> Image:
    """Heads have sinks."""
    shape = Shape(arch="gpt-oss", n_embd=128, n_head=4)
    embd, kv, ff = shape.n_embd, shape.n_head_kv * shape.head, shape.n_ff
    new = {
        "post_attention_norm.weight": (embd,),
        "attn_q.bias": (embd,),
        "attn_k.bias": (kv,),
        "attn_v.bias": (kv,),
        "attn_output.bias": (embd,),
        "attn_sinks.weight": (shape.n_head,),
        "ffn_gate_inp.weight": (embd, n_expert),
        "ffn_gate_inp.bias": (n_expert,),
        "ffn_gate_exps.weight": (embd, ff, n_expert),
        "ffn_gate_exps.bias": (ff, n_expert),
        "ffn_up_exps.weight": (embd, ff, n_expert),
        "ffn_up_exps.bias": (ff, n_expert),
        "ffn_down_exps.weight": (ff, embd, n_expert),
        "ffn_down_exps.bias": (embd, n_expert),
    }
    numbers = {
        "expert_count": u32(n_expert),
        "expert_used_count": u32(2),
        "expert_feed_forward_length": u32(ff),
    }
    return _model(
        shape,
        _slides(window, 2) | numbers,
        new,
        gone=("ffn_norm", "ffn_gate", "ffn_up", "ffn_down"),
        model_tensors={"output.weight": (embd, shape.n_vocab)},
    )


def gemma4(window: int = WINDOW) -> Image:
    """Six layers: the last two read the keys and values of earlier ones, and heads with a window
    are half as large as the others."""
    shape = Shape(arch="gemma4", n_layer=6, n_embd=128, n_head=2, n_head_kv=1)
    windowed = [True, False, True, False, True, False]
    head, head_swa, n_shared = 64, 32, 2
    embd = shape.n_embd
    tensors: dict[str, tuple[int, ...]] = {"rope_freqs.weight": (head // 2,)}
    for layer, slides in enumerate(windowed):
        size = head_swa if slides else head
        tensors |= {
            f"blk.{layer}.attn_q.weight": (embd, shape.n_head * size),
            f"blk.{layer}.attn_k.weight": (embd, size),
            f"blk.{layer}.attn_v.weight": (embd, size),
            f"blk.{layer}.attn_output.weight": (shape.n_head * size, embd),
            f"blk.{layer}.attn_q_norm.weight": (size,),
            f"blk.{layer}.attn_k_norm.weight": (size,),
        }
    new = {"post_attention_norm.weight": (embd,), "post_ffw_norm.weight": (embd,)}
    numbers = {
        "attention.shared_kv_layers": u32(n_shared),
        "attention.key_length": u32(head),
        "attention.value_length": u32(head),
        "attention.key_length_swa": u32(head_swa),
        "attention.value_length_swa": u32(head_swa),
        "rope.dimension_count": u32(head),
        "rope.dimension_count_swa": u32(head_swa),
        "rope.freq_base_swa": f32(1000.0),
        "embedding_length_per_layer_input": u32(0),
        "final_logit_softcapping": f32(30.0),
    }
    return _model(shape, _slides(window, windowed) | numbers, new, model_tensors=tensors)


def llama4(n_expert: int = 2) -> Image:
    """Windows are chunks: a query sees back to the start of its own."""
    shape = Shape(arch="llama4", n_layer=4, n_embd=128, n_head=4)
    embd, ff = shape.n_embd, shape.n_ff
    new = {
        "ffn_gate_inp.weight": (embd, n_expert),
        "ffn_gate_exps.weight": (embd, ff, n_expert),
        "ffn_up_exps.weight": (embd, ff, n_expert),
        "ffn_down_exps.weight": (ff, embd, n_expert),
        "ffn_gate_shexp.weight": (embd, ff),
        "ffn_up_shexp.weight": (embd, ff),
        "ffn_down_shexp.weight": (ff, embd),
    }
    numbers = {
        "expert_count": u32(n_expert),
        "expert_used_count": u32(1),
        "expert_feed_forward_length": u32(ff),
        "interleave_moe_layer_step": u32(1),
    }
    return _model(shape, numbers, new, gone=("ffn_gate", "ffn_up", "ffn_down"))
