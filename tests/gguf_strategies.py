"""Hypothesis strategies for models that are nearly sound."""

from __future__ import annotations

import math
from typing import Any

from gguf_bytes import (
    BLOCKS,
    F16,
    F32,
    I32,
    Q4_0,
    Q8_0,
    Shape,
    Tensor,
    Typed,
    bpe_vocab,
    model_metadata,
    model_tensors,
    spm_vocab,
    write_gguf,
)
from hypothesis import strategies as st

# Those in the preflight's table, but for the one that is all experts.
ARCHITECTURES = (
    "llama",
    "mistral3",
    "smollm3",
    "minicpm",
    "exaone",
    "ernie4_5",
    "qwen2",
    "qwen3",
    "phi3",
    "gemma",
    "gemma2",
    "gemma3",
)

INTEGERS = (
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    16,
    31,
    32,
    64,
    65,
    96,
    256,
    300,
    512,
    513,
    2**16,
    2**31,
    2**32 - 1,
)
FLOATS = (0.0, 1.0, -1.0, 1e-30, 1e30, 3e38, 0.5, 8.0, math.inf, math.nan)
STRINGS = (
    "",
    "none",
    "yarn",
    "longrope",
    "gpt2",
    "t5",
    "rwkv",
    "gemma4",
    "llama-bpe",
    "a\0",
    "<s>",
)
OPTIONAL = {  # keys that llama.cpp reads of these models where they are there
    "general.alignment": "u32",
    "tokenizer.ggml.add_bos_token": "bool",
    "tokenizer.ggml.add_eos_token": "bool",
    "tokenizer.ggml.add_space_prefix": "bool",
    "tokenizer.ggml.eot_token_id": "u32",
    "tokenizer.ggml.pre": "string",
    "{arch}.attention.causal": "bool",
    "{arch}.attention.key_length": "u32",
    "{arch}.attention.key_length_swa": "u32",
    "{arch}.attention.scale": "f32",
    "{arch}.attention.sliding_window": "u32",
    "{arch}.attention.sliding_window_pattern": "u32",
    "{arch}.attention.temperature_scale": "f32",
    "{arch}.attention.value_length": "u32",
    "{arch}.attn_logit_softcapping": "f32",
    "{arch}.embedding_length_out": "u32",
    "{arch}.expert_count": "u32",
    "{arch}.expert_used_count": "u32",
    "{arch}.final_logit_softcapping": "f32",
    "{arch}.logit_scale": "f32",
    "{arch}.nextn_predict_layers": "u32",
    "{arch}.pooling_type": "u32",
    "{arch}.rope.dimension_count_swa": "u32",
    "{arch}.rope.freq_base_swa": "f32",
    "{arch}.rope.scaling.attn_factor": "f32",
    "{arch}.rope.scaling.factor": "f32",
    "{arch}.rope.scaling.original_context_length": "u32",
    "{arch}.rope.scaling.type": "string",
    "{arch}.vocab_size": "u32",
}
EXTRA_TENSORS = ("output.weight", "rope_freqs.weight", "blk.0.attn_q.bias", "blk.0.attn_qkv.weight")
SIZES = (1, 2, 4, 8, 16, 32, 64, 96, 128, 256, 300)


def values(kind: str) -> st.SearchStrategy[Any]:
    if kind in ("f32", "f64"):
        return st.sampled_from(FLOATS)
    if kind == "string":
        return st.sampled_from(STRINGS)
    if kind == "bool":
        return st.booleans()
    bits = int(kind[1:])
    return st.sampled_from(INTEGERS).map(lambda value: _fit(value, bits, kind[0] == "i"))


def _fit(value: int, bits: int, signed: bool) -> int:
    value %= 1 << bits
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def change_metadata(draw: st.DrawFn, metadata: dict[str, Typed], arch: str) -> None:
    names = sorted(metadata) + [name.format(arch=arch) for name in OPTIONAL]
    name = draw(st.sampled_from(names))
    kinds = {key.format(arch=arch): kind for key, kind in OPTIONAL.items()}
    old = metadata.get(name) or Typed(kinds[name], None)
    if old.is_array and old.value:
        new = list(old.value)
        for at in draw(st.lists(st.integers(0, len(new) - 1), min_size=1, max_size=5)):
            new[at] = draw(values(old.kind))
        metadata[name] = Typed(
            old.kind, new[: draw(st.sampled_from([len(new), len(new) - 1]))], True
        )
    elif draw(st.booleans()):
        metadata[name] = Typed(old.kind, draw(values(old.kind)))
    else:
        per_layer = draw(st.lists(values(old.kind), max_size=3))
        metadata[name] = Typed(old.kind, per_layer, True)


def change_tensors(draw: st.DrawFn, tensors: dict[str, Tensor]) -> None:
    name = draw(st.sampled_from([*sorted(tensors), *EXTRA_TENSORS]))
    if name in tensors and draw(st.integers(0, 3)) == 0:
        del tensors[name]
        return
    shape = tensors[name].shape if name in tensors else (64,)
    if draw(st.booleans()):
        shape = tuple(draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=3)))
    type_id = draw(st.sampled_from([F32, F32, F16, Q4_0, Q8_0, I32]))
    elements, block_bytes = BLOCKS[type_id]
    shape = (max(elements, shape[0] // elements * elements), *shape[1:])
    nbytes = math.prod(shape) // elements * block_bytes
    fill = draw(st.sampled_from([b"\0", b"\xff", b"\x7f", b"\x3c"]))
    tensors[name] = Tensor(name, shape, type_id, fill * nbytes)


@st.composite
def models(draw: st.DrawFn) -> bytes:
    """A tiny model with a few things changed."""
    arch = draw(st.sampled_from(ARCHITECTURES))
    shape = Shape(arch=arch, n_layer=draw(st.sampled_from([1, 2])))
    metadata = model_metadata(shape) | draw(st.sampled_from([spm_vocab, bpe_vocab]))(shape.n_vocab)
    tensors = {tensor.name: tensor for tensor in model_tensors(shape)}
    for _ in range(draw(st.integers(1, 2))):
        if draw(st.integers(0, 2)) > 0:
            change_metadata(draw, metadata, arch)
        else:
            change_tensors(draw, tensors)
    return write_gguf(metadata, list(tensors.values())).data
