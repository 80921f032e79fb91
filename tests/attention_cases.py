"""Steps of attention over pages: models, sequences, and where their keys and values lie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from attention_float64 import KV_TYPES, Attention, encode, poison
from hypothesis import strategies as st
from numpy.typing import NDArray

PAGE_SIZES = (8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Model:
    n_head_kv: int
    group: int
    head_dim_k: int
    head_dim_v: int
    k_type: str
    v_type: str
    softcap: float = 0.0
    window: int = 0
    sinks: bool = False

    @property
    def n_head(self) -> int:
        return self.n_head_kv * self.group


@dataclass(frozen=True)
class Sequence:
    """`n_new` query tokens behind `n_past` positions, the first `shared` of sequence 0's pages."""

    n_past: int
    n_new: int
    shared: bool = False


@st.composite
def small_models(draw: st.DrawFn, kv_types: tuple[str, ...] = KV_TYPES) -> Model:
    """Of heads small enough for kernels in the emulation."""
    k_type, v_type = draw(st.sampled_from(kv_types)), draw(st.sampled_from(kv_types))
    return Model(
        n_head_kv=draw(st.integers(1, 2)) if kv_types == KV_TYPES else 2,
        group=draw(st.sampled_from([1, 2, 3, 4, 5, 7, 8, 16, 19])),
        head_dim_k=draw(st.sampled_from((32, 64, 96) if k_type.startswith("q") else (16, 48, 80))),
        head_dim_v=draw(st.sampled_from((32, 64, 96) if v_type.startswith("q") else (16, 48, 80))),
        k_type=k_type,
        v_type=v_type,
        softcap=draw(st.sampled_from([0.0, 2.0, 30.0])),
        window=draw(st.sampled_from([0, 0, 1, 5, 32, 50])),
        sinks=draw(st.booleans()),
    )


def make_step(
    model: Model, seqs: list[Sequence], page_size: int, seed: int, interleaved: bool = False
) -> Attention:
    """A step whose cells hold poison wherever no query token may look, scratch page 0 included."""
    rng = np.random.default_rng(seed)
    lengths = [s.n_past + s.n_new for s in seqs]
    n_pages = [-(-length // page_size) for length in lengths]
    free = iter(1 + rng.permutation(sum(n_pages) + 3))
    tables = np.zeros((len(seqs), max(n_pages) + 1), np.int32)
    for row, seq in enumerate(seqs):
        full = min(seq.n_past, seqs[0].n_past) // page_size if seq.shared and row else 0
        tables[row, :full] = tables[0, :full]
        tables[row, full : n_pages[row]] = [next(free) for _ in range(full, n_pages[row])]
    tokens = [(row, s.n_past + i) for row, s in enumerate(seqs) for i in range(s.n_new)]
    if interleaved:
        tokens = [tokens[i] for i in rng.permutation(len(tokens))]
    rows, positions = np.array(tokens, np.int32).T.copy()
    # As in a fused QKV product: heads of a token lie together, tokens further apart.
    fused = rng.standard_normal((len(tokens), model.n_head + 2, model.head_dim_k), np.float32)
    n_cells = (sum(n_pages) + 4) * page_size
    k = rng.standard_normal((n_cells, model.n_head_kv * model.head_dim_k), np.float32)
    v = rng.standard_normal((n_cells, model.n_head_kv * model.head_dim_v), np.float32)
    step = Attention(
        q=fused[:, 1:-1],
        k=encode(k, model.k_type),
        v=encode(v, model.v_type),
        n_head_kv=model.n_head_kv,
        head_dim_v=model.head_dim_v,
        page_size=page_size,
        block_tables=tables,
        rows=rows,
        positions=positions,
        scale=1.3 * model.head_dim_k**-0.5,
        k_type=model.k_type,
        v_type=model.v_type,
        softcap=model.softcap,
        window=model.window,
        sinks=rng.normal(2, 2, model.n_head).astype(np.float32) if model.sinks else None,
    )
    seen = np.zeros(n_cells, bool)
    for token in range(len(tokens)):
        seen[step.cells(token)] = True
    step.k[~seen] = poison(model.k_type, step.k.shape[1])
    step.v[~seen] = poison(model.v_type, step.v.shape[1])
    if model.window:  # pages behind every window are freed
        for row, seq in enumerate(seqs):
            tables[row, : max(0, seq.n_past - model.window + 1) // page_size] = 0
    return step


def pool(step: Attention, **changed: Any) -> dict[str, Any]:
    """What kernels are told of K and V in pages."""
    names = (
        "k", "v", "k_type", "v_type", "n_head_kv", "head_dim_v", "page_size", "block_tables",
        "rows", "positions",
    )  # fmt: skip
    fields = {name: getattr(step, name) for name in names}
    return {**fields, "head_dim_k": step.q.shape[2], **changed}


def moved(step: Attention, page_size: int, seed: int) -> Attention:
    """The same sequences in other pages, of another size; every row's pages its own."""
    rng = np.random.default_rng(seed)
    length = int(step.positions.max()) + 1
    n_pages = -(-length // page_size)
    n_rows = len(step.block_tables)
    tables = rng.permutation(n_rows * n_pages).reshape(n_rows, n_pages).astype(np.int32)
    t = np.arange(length)
    k = np.empty((n_rows * n_pages * page_size, step.k.shape[1]), np.uint8)
    v = np.empty((n_rows * n_pages * page_size, step.v.shape[1]), np.uint8)
    k[:], v[:] = poison(step.k_type, k.shape[1]), poison(step.v_type, v.shape[1])
    for row in range(n_rows):
        old = step.block_tables[row, t // step.page_size] * step.page_size + t % step.page_size
        new = tables[row, t // page_size] * page_size + t % page_size
        k[new], v[new] = step.k[old], step.v[old]
    return replace(step, k=k, v=v, page_size=page_size, block_tables=tables)


def error(result: NDArray[np.float32], exact: NDArray[np.float64]) -> float:
    worst = float(np.abs(result - exact).max())
    return worst if np.isfinite(result).all() else np.inf
