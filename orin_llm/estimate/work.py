"""What a step computes and moves, counted from a model's header; which models can be counted."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orin_llm.errors import ModelFileError
from orin_llm.gguf import footprint
from orin_llm.gguf.header import Header, Tensor
from orin_llm.gguf.kv_layers import Hyperparameters, kv_layers

_BLOCK = re.compile(r"blk\.(\d+)\.")


@dataclass(frozen=True)
class Work:
    """One step.

    Attributes:
        tokens: rows of the batch.
        flops: of the matrices and of attention, a multiply-add counted as two. Norms, RoPE,
            softmax and what else goes element by element are left out.
        bytes: of weights and of the KV cache that are read. Activations are left out.
    """

    tokens: int
    flops: int
    bytes: int


def refuse_unmodelled(header: Header, path: Path) -> None:
    """Raise where the counts of this module would be wrong.

    Raises:
        ModelFileError: experts, recurrent layers, latent attention, an encoder, or layers that
            share keys and values; the message says which.
    """
    hp = Hyperparameters(header)
    if hp.integer("expert_count"):
        problem = "a mixture of experts (which experts a batch of tokens reads)"
    elif footprint.state_bytes(header):
        problem = "recurrent layers (what a step computes for their state)"
    elif hp.integer("attention.key_length_mla"):
        problem = "latent attention (MLA)"
    elif any(tensor.name.startswith("enc.") for tensor in header.tensors):
        problem = "an encoder"
    elif len(kv_layers(header)) != hp.layers or not hp.layers:
        problem = "layers without keys and values of their own"
    else:
        return
    raise ModelFileError(
        f"{path.name} ({hp.architecture}) has {problem}: the estimate models only layers of "
        "attention and dense matrices; `orin-llm models show` tells its bytes per token and its "
        "memory",
        path=str(path),
        field="general.architecture",
    )


def decode_step(header: Header, context: int, kv_type: str) -> Work:
    """Decoding one token that is the `context`-th of its sequence."""
    matrices = 2 * (_block_elements(header) + _elements(_output_matrix(header)))
    weights = footprint.bytes_read_per_token(header)
    return Work(
        tokens=1,
        flops=matrices + attention_flops(header, context - 1, 1),
        bytes=weights + footprint.kv_bytes_read(header, context, kv_type),
    )


def prefill_steps(
    header: Header, prompt_tokens: int, chunk_size: int, kv_type: str
) -> Iterator[Work]:
    """Prefilling a prompt in chunks; only its last token is given to the output matrix."""
    output = _output_matrix(header)
    weights = footprint.bytes_read_per_token(header)
    per_token = 2 * _block_elements(header)
    for start in range(0, prompt_tokens, chunk_size):
        tokens = min(chunk_size, prompt_tokens - start)
        end = start + tokens
        flops = per_token * tokens + attention_flops(header, start, tokens)
        read = weights + footprint.kv_bytes_read(header, end, kv_type, tokens)
        if end == prompt_tokens:
            flops += 2 * _elements(output)
        else:
            read -= output.nbytes
        yield Work(tokens=tokens, flops=flops, bytes=read)


def attention_flops(header: Header, context: int, tokens: int) -> int:
    """Products of queries with keys and of scores with values, for `tokens` tokens after `context`.

    Each (query, key) pair costs 2 * head_count * (key_length + value_length); a token looks at
    itself and at what is before it, in layers with a sliding window at no more than that.
    """
    hp = Hyperparameters(header)
    heads = hp.per_layer("attention.head_count", hp.layers)
    kv_heads = hp.per_layer("attention.head_count_kv", hp.layers)
    total = 0
    for layer, head_count, kv_count in zip(kv_layers(header), heads, kv_heads, strict=True):
        group = head_count // kv_count if kv_count else 1  # not stated: a pair of KV heads a head
        per_pair = 2 * group * (layer.k_elements + layer.v_elements)
        total += per_pair * _pairs(context, tokens, layer.window)
    return total


def _pairs(context: int, tokens: int, window: int) -> int:
    """Keys that the tokens look at in all: context + 1, context + 2 …, each at most `window`."""
    growing = tokens if not window else max(0, min(tokens, window - context))
    return growing * context + growing * (growing + 1) // 2 + (tokens - growing) * window


def _block_elements(header: Header) -> int:
    """Elements of the matrices that every token is multiplied with."""
    layers = Hyperparameters(header).layers
    return sum(_elements(tensor) for tensor in header.tensors if _runs(tensor, layers))


def _runs(tensor: Tensor, layers: int) -> bool:
    block = _BLOCK.match(tensor.name)
    return bool(block and int(block[1]) < layers and len(tensor.shape) > 1)


def _output_matrix(header: Header) -> Tensor:
    """The matrix that makes the logits: the embedding's where there is none of its own."""
    named = {tensor.name: tensor for tensor in header.tensors}
    return named["output.weight"] if "output.weight" in named else named["token_embd.weight"]


def _elements(tensor: Tensor) -> int:
    return math.prod(tensor.shape)
