"""A model made wider by zero padding, without changing what it computes.

K-quants and the kernels for them need rows of whole 256-weight blocks; a small model such as the
default one (576 wide) has none. Padded to 768 it does, and still speaks.

Why the output stays the same:

- Hidden states get zeros behind them: the rows that would write the new places are zero, so are
  the new columns of the embeddings, and the new columns that read those places meet zeros.
- RMSNorm divides by the root of the mean square plus epsilon. Over w' places of which w are in use
  the mean is w / w' of what it was; with epsilon times w / w' the root is sqrt(w / w') of what it
  was, and norm weights times sqrt(w / w') undo that.
- Whole attention heads are added behind the old ones, in whole groups: query head h reads key head
  h // group, so no old head changes its partner. The new heads see scores of 0 and values of 0.
  RoPE acts within a head, and the size of a head stays.
- Feed-forward places added behind the old ones are silu(0) * 0 = 0.

Quantized rows are padded with blocks of zero bytes, whose scales are 0: every old weight keeps its
bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from orin_llm.errors import ModelFileError
from orin_llm.gguf.header import Tensor as TensorInfo
from orin_llm.gguf.header import read_header
from orin_llm.models.gguf_io import (
    Metadata,
    Tensor,
    Value,
    metadata_of,
    row_bytes,
    write_gguf,
)
from orin_llm.models.reporter import Reporter

BLOCK = 256  # weights in a block of the K-quants
_CHUNK_BYTES = 8 << 20


@dataclass(frozen=True)
class Widths:
    """The sizes that padding changes. `q` and `kv` are heads times head size."""

    embd: int
    q: int
    kv: int
    ff: int


# The axes of each tensor, fastest first; "" is an axis that stays as it is.
_AXES = {
    "token_embd.weight": ("embd", ""),
    "output.weight": ("embd", ""),
    "output_norm.weight": ("embd",),
    "rope_freqs.weight": ("",),
    "rope_factors_long.weight": ("",),
    "rope_factors_short.weight": ("",),
    "attn_norm.weight": ("embd",),
    "attn_q.weight": ("embd", "q"),
    "attn_k.weight": ("embd", "kv"),
    "attn_v.weight": ("embd", "kv"),
    "attn_output.weight": ("q", "embd"),
    "attn_q.bias": ("q",),
    "attn_k.bias": ("kv",),
    "attn_v.bias": ("kv",),
    "attn_output.bias": ("embd",),
    "ffn_norm.weight": ("embd",),
    "ffn_gate.weight": ("embd", "ff"),
    "ffn_up.weight": ("embd", "ff"),
    "ffn_down.weight": ("ff", "embd"),
    "ffn_gate.bias": ("ff",),
    "ffn_up.bias": ("ff",),
    "ffn_down.bias": ("embd",),
}


def widen(
    source: Path, out: Path, *, force: bool = False, reporter: Reporter | None = None
) -> None:
    """Writes `source` padded so that every matrix's rows divide by 256, with the same output.

    The same up to rounding: norm weights and epsilon are rounded to float32 anew, and llama.cpp
    rounds activations to 8 bits between layers of quantized models, which magnifies a last bit.

    Every tensor keeps its type, all other metadata is copied, and `general.name` says what was
    done.

    Args:
        source: a dense model of the llama architecture.
        force: overwrite `out` if it exists.
        reporter: told how far the work is.

    Raises:
        ModelFileError: `source` is damaged, cannot be widened, or has nothing to widen.
        UsageError: `out` exists.
        OrinError: the disk has no room or cannot be written.
    """
    header = read_header(source)
    metadata = metadata_of(header)
    old, new = _plan(source, metadata)
    metadata |= _new_metadata(metadata, old, new)
    data = np.memmap(source, dtype=np.uint8, mode="r")
    tensors = [_widened(source, info, data, old, new) for info in header.tensors]
    write_gguf(out, metadata, tensors, force=force, reporter=reporter)


def _plan(source: Path, metadata: Metadata) -> tuple[Widths, Widths]:
    """The widths that the file has and those that it gets."""
    refuse = partial(_refusal, source)

    def number(key: str, default: int = 0) -> int:
        found = metadata.get(key)
        value = default if found is None else found.value
        if not isinstance(value, int):
            raise refuse(key, f"{key} must be one number, the same in all layers")
        return value

    architecture = metadata["general.architecture"].value
    if architecture != "llama":
        raise refuse(
            "general.architecture", f"only the llama architecture is known, this is {architecture}"
        )
    for key in ("llama.expert_count", "split.count"):
        if number(key):
            raise refuse(key, f"{key} is {number(key)}; only dense models in one file are known")

    embd, ff = number("llama.embedding_length"), number("llama.feed_forward_length")
    n_head = number("llama.attention.head_count")
    n_head_kv = number("llama.attention.head_count_kv", n_head)
    if min(embd, ff, n_head, n_head_kv) <= 0 or embd % n_head or n_head % n_head_kv:
        raise refuse(
            "llama.attention.head_count",
            f"{n_head} heads on {n_head_kv} key heads do not divide a width of {embd}",
        )
    head_dim, group = embd // n_head, n_head // n_head_kv
    for key in ("llama.attention.key_length", "llama.attention.value_length"):
        if n_head * number(key, head_dim) != embd:
            raise refuse(key, f"{n_head} heads of {number(key, head_dim)} do not make {embd}")

    old = Widths(embd=embd, q=embd, kv=n_head_kv * head_dim, ff=ff)
    step = math.lcm(BLOCK, group * head_dim)  # whole blocks and whole groups of heads
    new_embd, new_ff = -(-embd // step) * step, -(-ff // BLOCK) * BLOCK
    new = Widths(embd=new_embd, q=new_embd, kv=new_embd // group, ff=new_ff)
    if new == old:
        raise refuse("", f"its rows of {embd} and {ff} divide by {BLOCK} already")
    return old, new


def _new_metadata(metadata: Metadata, old: Widths, new: Widths) -> Metadata:
    """The values that change, each with the type it had."""
    heads, epsilon = "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"
    head_dim = old.embd // metadata[heads].value
    changed = {
        "llama.embedding_length": new.embd,
        "llama.feed_forward_length": new.ff,
        heads: new.q // head_dim,
        heads + "_kv": new.kv // head_dim,
        epsilon: metadata[epsilon].value * old.embd / new.embd,
    }
    name = metadata.get("general.name", Value.string("model")).value
    return {
        "general.name": Value.string(f"{name} (zero-padded, {new.embd} wide)"),
        **{
            key: replace(metadata[key], value=value)
            for key, value in changed.items()
            if key in metadata
        },
    }


def _widened(
    source: Path, info: TensorInfo, data: NDArray[np.uint8], old: Widths, new: Widths
) -> Tensor:
    """The tensor `info` of the source, padded."""
    role = ".".join(info.name.split(".")[-2:])
    axes = _AXES.get(role)
    if axes is None:
        raise _refusal(source, info.name, f"the place of tensor {info.name} is not known")
    shape = tuple(
        getattr(new, axis) if axis else size for axis, size in zip(axes, info.shape, strict=True)
    )
    if info.type not in gguf.GGMLQuantizationType.__members__:
        raise _refusal(source, info.name, f"the type {info.type} of {info.name} is not known")
    raw = data[info.offset : info.offset + info.nbytes]
    if role.endswith("_norm.weight"):
        if info.type != "F32":
            raise _refusal(source, info.name, f"{info.name} must be F32, it is {info.type}")
        raw = scaled_norm(raw.view("<f4"), shape[0]).view(np.uint8)
    n_rows = math.prod(info.shape[1:])
    rows = raw.reshape(n_rows, -1)
    new_row_bytes = row_bytes(info.type, shape[0])
    return Tensor(
        info.name, shape, info.type, partial(_padded, rows, math.prod(shape[1:]), new_row_bytes)
    )


def _refusal(source: Path, field: str, why: str) -> ModelFileError:
    return ModelFileError(f"{source} cannot be widened: {why}", path=str(source), field=field)


def scaled_norm(weights: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """Norm weights for hidden states padded to `width`: [len(weights)], not padded themselves."""
    return (weights.astype(np.float64) * math.sqrt(len(weights) / width)).astype("<f4")


def _padded(rows: NDArray[np.uint8], n_rows: int, row_nbytes: int) -> Iterator[NDArray[np.uint8]]:
    """`rows` with zero bytes behind each, and zero rows behind them all, a few MiB at a time."""
    step = max(1, _CHUNK_BYTES // row_nbytes)
    for start in range(0, n_rows, step):
        chunk = np.zeros((min(step, n_rows - start), row_nbytes), dtype=np.uint8)
        part = rows[start : start + len(chunk)]
        chunk[: len(part), : part.shape[1]] = part
        yield chunk
