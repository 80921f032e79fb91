"""What a page size costs the processor's kernels alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

import numpy as np

from orin_llm import _native
from orin_llm.gguf.header import Header
from orin_llm.gguf.kv_layers import Hyperparameters, KvLayer, kv_layers
from orin_llm.gguf.kv_types import KvTypes

WRITTEN = 64  # tokens at once
_RUNS = 7
_WORK = 60_000  # cells that one timing attends to, so that the start of a graph does not count


@dataclass(frozen=True)
class PageKernels:
    """Medians, of one layer.

    Attributes:
        attention_us: of one token behind the longest prompt, whose pages lie scattered.
        write_us: of storing a token's keys and values, of 64 that are written at once.
    """

    attention_us: float
    write_us: float


def page_kernels(
    header: Header, kv_type: str, page_sizes: Iterable[int], depth: int, threads: int
) -> dict[int, PageKernels]:
    """Time the processor's paged attention, and llama.cpp's writing, for a model's layer.

    Page sizes take turns. Empty where the model has no layer that is computed in pages.

    Args:
        depth: tokens of the longest prompt.
        threads: of the engine.
    """
    layer = _layer(header)
    n_head = Hyperparameters(header).integer("attention.head_count")
    if layer is None or not n_head:
        return {}
    sizes = list(page_sizes)
    written = min(WRITTEN, depth)
    reading = {s: _probe(layer, n_head, kv_type, s, depth, 1, threads) for s in sizes}
    writing = {s: _probe(layer, n_head, kv_type, s, depth, written, threads) for s in sizes}
    nodes = max(1, _WORK // depth)
    attention: dict[int, list[float]] = {size: [] for size in sizes}
    writes: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(_RUNS):
        for size in sizes:
            seconds = reading[size].time(stock=False, n_threads=threads, n_nodes=nodes)
            attention[size].append(seconds)
            seconds = writing[size].time_write(n_threads=threads, n_repeats=nodes)
            writes[size].append(seconds / written)
    return {
        size: PageKernels(1e6 * median(attention[size]), 1e6 * median(writes[size]))
        for size in sizes
    }


def _layer(header: Header) -> KvLayer | None:
    """The first that attends to everything, in the usual way."""
    for layer in kv_layers(header):
        if layer.window == 0 and layer.k_head and layer.v_elements:
            return layer
    return None


def _probe(
    layer: KvLayer,
    n_head: int,
    kv_type: str,
    page_size: int,
    depth: int,
    n_tokens: int,
    threads: int,
) -> _native.AttentionProbe:
    """The last `n_tokens` of `depth` positions, in pages that lie in no order."""
    types = KvTypes.parse(kv_type)
    n_pages = -(-depth // page_size)
    cells = n_pages * page_size
    pages = np.random.default_rng(page_size).permutation(n_pages).astype(np.int32)
    return _native.AttentionProbe(
        q=np.zeros((n_tokens, n_head, layer.k_head), np.float32),
        k=np.zeros((cells, types.k.row_bytes(layer.k_elements)), np.uint8),
        v=np.zeros((cells, types.v.row_bytes(layer.v_elements)), np.uint8),
        k_type=types.k.name,
        v_type=types.v.name,
        n_head_kv=layer.k_elements // layer.k_head,
        head_dim_v=layer.v_head,
        page_size=page_size,
        block_tables=pages[None, :],
        rows=np.zeros(n_tokens, np.int32),
        positions=np.arange(depth - n_tokens, depth, dtype=np.int32),
        scale=layer.k_head**-0.5,
        max_threads=threads,
    )
