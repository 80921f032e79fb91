"""How many bytes a model moves and keeps: weights read per token, KV cache, activations.

Everything follows from the header alone; no tensor data is read.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from orin_llm.gguf.header import Header, Tensor
from orin_llm.gguf.kv_layers import (
    Hyperparameters,
    KvLayer,
    kv_layers,
    recurrent_state_elements,
)
from orin_llm.gguf.kv_types import KvTypes

DEFAULT_MAX_CTX = 8192  # tokens that an engine takes of the model's context when it is not told
_GATHERED = ("token_embd.weight", "per_layer_token_embd.weight", "position_embd.weight")
_BLOCK = re.compile(r"blk\.(\d+)\.")
# Stacked experts are one tensor `…_exps`; older files have one per expert, `ffn_up.7.weight`.
_EXPERT = re.compile(r"blk\.\d+\.ffn_(\w+_exps\.|(gate|up|down)\.\d+\.)")


def weight_bytes(header: Header) -> int:
    """Bytes of all tensors."""
    return sum(tensor.nbytes for tensor in header.tensors)


def bytes_read_per_token(header: Header) -> int:
    """Bytes of weights that decoding one token reads.

    All tensors, except that
    - an embedding that is only looked up counts one row: nbytes / rows. `token_embd` counts in
      full where there is no `output.weight`, since it is the output matrix then;
    - expert tensors count by the share of experts used: nbytes * expert_used_count / expert_count;
    - blocks for predicting several tokens at once (the last `nextn_predict_layers`) count nothing.
    """
    hp = Hyperparameters(header)
    tied = not any(tensor.name == "output.weight" for tensor in header.tensors)
    return math.floor(sum(_read_bytes(tensor, hp, tied) for tensor in header.tensors))


def _read_bytes(tensor: Tensor, hp: Hyperparameters, tied: bool) -> Fraction:
    whole = Fraction(tensor.nbytes)
    if tensor.name in _GATHERED and not (tensor.name == "token_embd.weight" and tied):
        return whole / max(1, math.prod(tensor.shape[1:]))
    block = _BLOCK.match(tensor.name)
    if block and int(block[1]) >= hp.layers:
        return Fraction(0)
    experts = hp.integer("expert_count")
    if experts and _EXPERT.match(tensor.name):
        used = hp.per_layer("expert_used_count", hp.blocks)[int(block[1])] if block else experts
        return whole * used / experts
    return whole


def kv_bytes_per_token(header: Header, kv_type: str = "f16") -> int:
    """Bytes that one more token adds to the KV cache.

    Sum over the layers with a cache of head_count_kv * (key_length + value_length) elements; keys
    and values are rounded up to whole blocks of their types (`kv_type`: see KvTypes.parse).
    key_length and value_length are embedding_length / head_count where the file leaves them out.
    Latent attention (MLA) keeps no values.

    Raises:
        UsageError: an unknown `kv_type`.
    """
    types = KvTypes.parse(kv_type)
    return sum(_row_bytes(layer, types) for layer in kv_layers(header))


def kv_bytes(header: Header, tokens: int, kv_type: str = "f16") -> int:
    """Bytes of the KV cache of one sequence of `tokens` tokens.

    Layers with a sliding window keep the whole context too: cutting back to a prefix needs what
    has left the window. The fixed state of recurrent layers is not included: see `state_bytes`.

    Raises:
        UsageError: an unknown `kv_type`.
    """
    return tokens * kv_bytes_per_token(header, kv_type)


def kv_bytes_read(header: Header, context: int, kv_type: str = "f16", new_tokens: int = 1) -> int:
    """Bytes of the KV cache that a step reads whose last token is the `context`-th.

    Layers with a sliding window read what the `new_tokens` tokens of the step look back on.

    Raises:
        UsageError: an unknown `kv_type`.
    """
    types = KvTypes.parse(kv_type)
    total = 0
    for layer in kv_layers(header):
        rows = min(context, layer.window + new_tokens - 1) if layer.window else context
        total += rows * _row_bytes(layer, types)
    return total


def _row_bytes(layer: KvLayer, types: KvTypes) -> int:
    return types.k.row_bytes(layer.k_elements) + types.v.row_bytes(layer.v_elements)


def state_bytes(header: Header) -> int:
    """Bytes that a sequence needs for recurrent layers, independent of its length (32-bit)."""
    return 4 * recurrent_state_elements(header)


def largest_window(header: Header) -> int:
    """Tokens of the sliding window where some layers have one, else 0."""
    return max((layer.window for layer in kv_layers(header)), default=0)


def activation_bytes(header: Header, ctx: int, chunk_size: int) -> int:
    """Estimate of the working memory of a step, apart from the logits.

    chunk_size * (4 * (4 * embedding + 3 * feed-forward) + 2 * ctx): 32-bit rows where the
    feed-forward part is widest, and the 16-bit attention mask. It is what llama.cpp reserves for
    dense llama models with flash attention. The feed-forward width of experts is that of those
    used.
    """
    hp = Hyperparameters(header)
    layers = max(1, hp.layers)
    dense = max(hp.per_layer("feed_forward_length", layers))
    expert = max(hp.per_layer("expert_feed_forward_length", layers))
    width = max(dense, expert * max(hp.per_layer("expert_used_count", layers)))
    row = 4 * hp.integer("embedding_length") + 3 * width
    return chunk_size * (4 * row + 2 * ctx)


def logits_bytes(header: Header) -> int:
    """Bytes of one row of logits: vocabulary * 4."""
    for tensor in header.tensors:
        if tensor.name in ("output.weight", "token_embd.weight") and len(tensor.shape) > 1:
            return 4 * int(tensor.shape[1])
    return 0
