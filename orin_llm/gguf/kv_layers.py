"""Which layers keep keys and values, and how many elements of them per token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orin_llm.gguf.header import Header, finder

# Layers in a row after which one attends to everything, where the file does not say so; and
# whether that one comes first. From llama.cpp's models/*.cpp (load_swa_pattern).
_WINDOW_PERIODS = {
    "gemma2": (2, False),
    "gemma3": (6, False),
    "gemma3n": (5, False),
    "gpt-oss": (2, False),
    "cohere2": (4, False),
    "exaone4": (4, False),
    "olmo2": (4, False),
    "smallthinker": (4, True),
}
# llama.cpp fixes this one in models/gemma3n.cpp: later layers use the keys of earlier ones.
_LAYERS_WITH_OWN_KV = {"gemma3n": 20}
_RECURRENT_PERIODS = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4}


@dataclass(frozen=True)
class KvLayer:
    """One layer's cache.

    Attributes:
        k_elements, v_elements: per token; v is 0 where values are a view of the keys (MLA).
        k_head, v_head: the same, of one head.
        window: tokens it looks back, 0 for all.
    """

    k_elements: int
    v_elements: int
    k_head: int
    v_head: int
    window: int


class Hyperparameters:
    """Reads `ARCH.key` of a header, with llama.cpp's defaults for what is left out."""

    def __init__(self, header: Header) -> None:
        self._find = finder(header)
        self.architecture = str(self._find("general.architecture") or "")

    def get(self, key: str) -> Any:
        """The value of `ARCH.key`, or None."""
        return self._find(f"{self.architecture}.{key}")

    def integer(self, key: str, default: int = 0) -> int:
        """A single number; the first one where the file has one per layer."""
        value = self.get(key)
        if isinstance(value, list):
            value = value[0] if value else None
        return value if isinstance(value, int) else default

    def per_layer(self, key: str, n_layers: int, default: int = 0) -> list[int]:
        """One number for each layer, from a single one or a list."""
        value = self.get(key)
        if isinstance(value, list):
            return [int(v) for v in value[:n_layers]] + [default] * (n_layers - len(value))
        return [value if isinstance(value, int) else default] * n_layers

    @property
    def blocks(self) -> int:
        """All blocks in the file."""
        return self.integer("block_count")

    @property
    def layers(self) -> int:
        """Blocks that run for each token: those for predicting several tokens at once do not."""
        return max(0, self.blocks - self.integer("nextn_predict_layers"))


def kv_layers(header: Header) -> tuple[KvLayer, ...]:
    """The layers that keep keys and values, in order; recurrent ones keep none."""
    hp = Hyperparameters(header)
    n = hp.layers
    heads = hp.per_layer("attention.head_count", n)
    kv_heads = hp.per_layer("attention.head_count_kv", n)
    if hp.get("attention.head_count_kv") is None:
        kv_heads = heads
    default = hp.integer("embedding_length") // heads[0] if n and heads[0] else 0
    k, v = (hp.integer(f"attention.{part}_length", default) for part in ("key", "value"))
    k_swa = hp.integer("attention.key_length_swa", k)
    v_swa = hp.integer("attention.value_length_swa", v)
    if hp.integer("attention.key_length_mla"):
        v = v_swa = 0
    windows = _windows(hp, n)
    recurrent = _recurrent(hp, n)
    result = []
    for layer in range(_own_kv(hp, n)):
        width_k, width_v = (k_swa, v_swa) if windows[layer] else (k, v)
        count = 0 if recurrent[layer] else kv_heads[layer]
        if count and width_k:
            elements = count * width_k, count * width_v
            result.append(KvLayer(*elements, width_k, width_v, windows[layer]))
    return tuple(result)


def recurrent_state_elements(header: Header) -> int:
    """32-bit numbers that the recurrent layers keep per sequence, however long it is.

    Per layer: conv state (kernel - 1) * (inner + 2 * groups * state), and state * inner
    (llama.cpp's `n_embd_r` and `n_embd_s`); short convolutions keep embedding * (kernel - 1).
    """
    hp = Hyperparameters(header)
    n = hp.layers
    heads = hp.per_layer("attention.head_count_kv", n)
    flags = _recurrent(hp, n)
    layers = sum(flag or heads[i] == 0 for i, flag in enumerate(flags))
    if hp.get("shortconv.l_cache") is not None:
        return layers * hp.integer("embedding_length") * (hp.integer("shortconv.l_cache") - 1)
    inner, state = hp.integer("ssm.inner_size"), hp.integer("ssm.state_size")
    groups, kernel = hp.integer("ssm.group_count"), hp.integer("ssm.conv_kernel")
    if not inner:
        return 0
    return layers * (max(0, kernel - 1) * (inner + 2 * groups * state) + state * inner)


def _windows(hp: Hyperparameters, n: int) -> list[int]:
    window = hp.integer("attention.sliding_window")
    pattern = hp.get("attention.sliding_window_pattern")
    if not window:
        return [0] * n
    if isinstance(pattern, list):
        flags = [bool(f) for f in pattern[:n]] + [False] * (n - len(pattern))
        return [window if f else 0 for f in flags]
    period, full_first = _WINDOW_PERIODS.get(hp.architecture, (0, False))
    period = hp.integer("attention.sliding_window_pattern", period)
    if not period:
        return [0] * n  # not known to slide
    full = 0 if full_first else period - 1
    return [0 if i % period == full else window for i in range(n)]


def _recurrent(hp: Hyperparameters, n: int) -> Sequence[bool]:
    flags = hp.get("attention.recurrent_layers")
    if isinstance(flags, list):
        return [bool(f) for f in flags[:n]] + [False] * (n - len(flags))
    period = hp.integer("full_attention_interval", _RECURRENT_PERIODS.get(hp.architecture, 0))
    return [period > 0 and (i + 1) % period != 0 for i in range(n)]


def _own_kv(hp: Hyperparameters, n: int) -> int:
    shared = hp.integer("attention.shared_kv_layers")
    return max(0, min(n, _LAYERS_WITH_OWN_KV.get(hp.architecture, n - shared)))
