"""Importance matrices for tests, and their files written byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from gguf_bytes import tiny_experts
from gguf_writer import Image, Tensor, Typed, array, string, u32, write_gguf

from orin_llm.quality.imatrix import Entry, Imatrix

METADATA = {
    "general.type": string("imatrix"),
    "imatrix.datasets": array("string", ["a.txt"]),
    "imatrix.chunk_count": u32(3),
    "imatrix.chunk_size": u32(512),
}


def entry(sums: Any, counts: Any) -> Entry:
    return Entry(np.array(sums, dtype=np.float32), np.array(counts, dtype=np.int64))


def small() -> Imatrix:
    """A matrix of one tensor, and one of three experts, the second of which no token went to."""
    return Imatrix(
        {
            "blk.0.ffn_up.weight": entry([[3.0, 6.0, 0.0, 1.5]], [1536]),
            "blk.0.ffn_up_exps.weight": entry([[1, 2], [0, 0], [5, 7]], [4, 0, 9]),
        },
        ("a.txt",),
        3,
        512,
    )


def pair(name: str, sums: Any, counts: Any) -> list[Tensor]:
    """The two tensors of an entry; shapes as llama.cpp writes them, no 1 at the end."""
    out = []
    columns = np.array(counts, dtype="<f4")[:, None]
    for suffix, values in ((".in_sum2", np.array(sums, dtype="<f4")), (".counts", columns)):
        shape = values.shape[::-1] if len(values) > 1 else values.shape[1:]
        out.append(Tensor(name + suffix, shape, data=values.tobytes()))
    return out


def image(
    entries: Mapping[str, tuple[Any, Any]], metadata: Mapping[str, Typed] = METADATA
) -> Image:
    """A file with these (sums, counts) by name, in the order given."""
    return write_gguf(metadata, [t for name, pairs in entries.items() for t in pair(name, *pairs)])


def small_image() -> Image:
    """What `small()` is in a file."""
    return image({name: (e.sums, e.counts) for name, e in small().entries.items()})


def legacy(
    entries: Mapping[str, tuple[list[float], int]], windows: int = 3, text: str = "a.txt"
) -> bytes:
    """A file of the older format: (values, windows) by name."""
    data = struct.pack("<i", len(entries))
    for name, (values, n) in entries.items():
        data += struct.pack("<i", len(name)) + name.encode()
        data += struct.pack("<ii", n, len(values)) + struct.pack(f"<{len(values)}f", *values)
    return data + struct.pack("<ii", windows, len(text)) + text.encode()


def random_experts(n_expert: int = 5, ff: int = 96) -> Image:
    """A model whose experts, two of which see each token, have random weights."""
    experts = tiny_experts(n_expert=n_expert, ff=ff)
    rng = np.random.default_rng(1)
    data = bytearray(experts.data)
    for mark, at in experts.marks.items():
        if "_exps" in mark and mark.endswith("/data"):
            n = 64 * ff * n_expert
            data[at : at + 4 * n] = (rng.standard_normal(n) / 8).astype("<f4").tobytes()
        elif "gate_inp" in mark and mark.endswith("/data"):
            n = 64 * n_expert
            data[at : at + 4 * n] = rng.standard_normal(n).astype("<f4").tobytes()
    return Image(bytes(data), experts.marks)
