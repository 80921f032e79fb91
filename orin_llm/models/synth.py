"""Files of a real model's shape with random weights and the real vocabulary, for speed work."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orin_llm.errors import UsageError
from orin_llm.models.gguf_io import Metadata, Tensor, Value, row_bytes, write_gguf
from orin_llm.models.quant_mix import FILE_TYPES, matrix_types
from orin_llm.models.quantize_types import FileType, file_type_named
from orin_llm.models.random_blocks import random_blocks, random_norm
from orin_llm.models.reporter import Reporter
from orin_llm.models.shapes import ModelShape, shape_named
from orin_llm.models.vocabulary import llama_vocabulary, tokenizer_metadata

# The weights' standard deviation is gain / sqrt(inputs), so that a normed input of deviation 1
# gives an output of deviation `gain`.

# Attention scores of deviation 2: at 512 tokens about 10 get the weight, so that attention to the
# wrong cells shows in the output.
_QUERY_KEY_GAIN = math.sqrt(2.0)
# What the layers add outweighs the token's own embedding, which as a tied output repeats the token.
_RESIDUAL_GAIN = 4.0
# Over 128k tokens an entropy of about 7 nats: neither flat nor settled.
_LOGIT_GAIN = 3.0


def _gain(name: str, tied_embeddings: bool) -> float:
    if name == ("token_embd.weight" if tied_embeddings else "output.weight"):
        return _LOGIT_GAIN
    if name.endswith((".attn_q.weight", ".attn_k.weight")):
        return _QUERY_KEY_GAIN
    if name.endswith((".attn_output.weight", ".ffn_down.weight")):
        return _RESIDUAL_GAIN
    return 1.0


def synthesize(
    shape: str,
    quant: str,
    out: Path,
    *,
    seed: int = 0,
    force: bool = False,
    reporter: Reporter | None = None,
) -> None:
    """Writes a model of `shape`, quantized as llama.cpp would quantize it to `quant`.

    The same arguments give the same bytes. The weights are random, the vocabulary is Llama 3's:
    text goes in and nonsense comes out, at the speed of the real model.

    Args:
        shape: a name in `shapes.SHAPES`.
        quant: a name in `quant_mix.FILE_TYPES`.
        force: overwrite `out` if it exists.
        reporter: told how far the work is.

    Raises:
        UsageError: an unknown shape or quantization, a negative seed, or an `out` that exists.
        OrinError: the vocabulary cannot be had, or the disk has no room or cannot be written.
    """
    model, file_type = shape_named(shape), file_type_named(quant, FILE_TYPES)
    if seed < 0:
        raise UsageError(f"the seed must not be negative, got {seed}")
    reporter = reporter or Reporter()
    vocabulary = llama_vocabulary(reporter)
    write_model(model, file_type, vocabulary, out, seed=seed, force=force, reporter=reporter)


def write_model(
    model: ModelShape,
    file_type: FileType,
    vocabulary: Metadata,
    out: Path,
    *,
    seed: int = 0,
    force: bool = False,
    reporter: Reporter | None = None,
) -> None:
    """`synthesize` for a shape, file type and vocabulary of the caller's own."""
    metadata = _metadata(model, file_type) | tokenizer_metadata(vocabulary, model.n_vocab)
    tensors = list(model_tensors(model, file_type, seed))
    write_gguf(out, metadata, tensors, force=force, reporter=reporter)


def _metadata(model: ModelShape, file_type: FileType) -> Metadata:
    return {
        "general.architecture": Value.string("llama"),
        "general.type": Value.string("model"),
        "general.name": Value.string(f"{model.title} shape, random weights"),
        "general.file_type": Value.u32(file_type.code),
        "general.quantization_version": Value.u32(2),
        "llama.block_count": Value.u32(model.n_layer),
        "llama.context_length": Value.u32(model.context_length),
        "llama.embedding_length": Value.u32(model.n_embd),
        "llama.feed_forward_length": Value.u32(model.n_ff),
        "llama.attention.head_count": Value.u32(model.n_head),
        "llama.attention.head_count_kv": Value.u32(model.n_head_kv),
        "llama.attention.key_length": Value.u32(model.head_dim),
        "llama.attention.value_length": Value.u32(model.head_dim),
        "llama.attention.layer_norm_rms_epsilon": Value.f32(model.rms_epsilon),
        "llama.rope.dimension_count": Value.u32(model.head_dim),
        "llama.rope.freq_base": Value.f32(model.rope_base),
        "llama.vocab_size": Value.u32(model.n_vocab),
    }


def model_tensors(model: ModelShape, file_type: FileType, seed: int) -> Iterator[Tensor]:
    """All tensors of a model, in the order in which llama.cpp's quantizer writes them."""
    shapes = dict(_shapes(model))
    types = matrix_types(
        model, file_type, ((name, shape) for name, shape in shapes.items() if len(shape) == 2)
    )

    def matrix(name: str, shape: tuple[int, ...]) -> Tensor:
        n_in, n_out = shape
        std = _gain(name, model.tied_embeddings) / math.sqrt(n_in)
        nbytes = row_bytes(types[name], n_in) * n_out
        chunks = partial(random_blocks, types[name], nbytes, std=std, seed=seed, name=name)
        return Tensor(name, shape, types[name], chunks)

    def vector(name: str, values: NDArray[np.float32]) -> Tensor:
        return Tensor(name, values.shape, "F32", lambda: iter([values]))

    for name, shape in shapes.items():
        if name == "rope_freqs.weight":
            yield vector(name, rope_factors(model))
        elif len(shape) == 1:
            yield vector(name, random_norm(shape[0], seed=seed, name=name))
        else:
            yield matrix(name, shape)


def _shapes(model: ModelShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    n_embd, n_kv, n_ff, n_vocab = model.n_embd, model.n_embd_kv, model.n_ff, model.n_vocab
    if not model.tied_embeddings:
        yield "output.weight", (n_embd, n_vocab)
    yield "output_norm.weight", (n_embd,)
    if model.rope_scaling is not None:
        yield "rope_freqs.weight", (model.head_dim // 2,)
    yield "token_embd.weight", (n_embd, n_vocab)
    for layer in range(model.n_layer):
        prefix = f"blk.{layer}."
        yield prefix + "attn_k.weight", (n_embd, n_kv)
        yield prefix + "attn_norm.weight", (n_embd,)
        yield prefix + "attn_output.weight", (n_embd, n_embd)
        yield prefix + "attn_q.weight", (n_embd, n_embd)
        yield prefix + "attn_v.weight", (n_embd, n_kv)
        yield prefix + "ffn_down.weight", (n_ff, n_embd)
        yield prefix + "ffn_gate.weight", (n_embd, n_ff)
        yield prefix + "ffn_norm.weight", (n_embd,)
        yield prefix + "ffn_up.weight", (n_embd, n_ff)


def rope_factors(model: ModelShape) -> NDArray[np.float32]:
    """What each RoPE frequency is divided by: [head_dim / 2].

    Llama 3.1's rule: wavelengths well inside the original context keep their frequency, those
    longer than it are stretched by the whole factor, and between them the two are blended.
    """
    scaling = model.rope_scaling
    if scaling is None:
        raise ValueError(f"{model.title} has no RoPE scaling")
    exponents = np.arange(0, model.head_dim, 2, dtype=np.float64) / model.head_dim
    wavelengths = 2.0 * np.pi * model.rope_base**exponents  # tokens per turn
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    keep = np.clip((scaling.original_context / wavelengths - low) / (high - low), 0.0, 1.0)
    return (1.0 / (keep + (1.0 - keep) / scaling.factor)).astype("<f4")
