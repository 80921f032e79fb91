"""Models for tests of loading: large ones, and ones that are not sound."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from gguf_bytes import Shape, Tensor, tiny_llama

# 2 layers × 3 matrices of 64 × 32768 floats: 48 MiB, more than a load reads ahead.
LARGE = Shape(n_ff=32768)
LARGE_BYTES = 48 << 20  # at least


def write_large_model(path: Path) -> Path:
    """A model that loads and runs; the data of its large matrices are holes in the file."""
    layers = range(LARGE.n_layer)
    names = [f"blk.{n}.ffn_{part}.weight" for n in layers for part in ("gate", "up", "down")]
    sizes = {"down": (LARGE.n_ff, LARGE.n_embd)}
    other = (LARGE.n_embd, LARGE.n_ff)
    image = tiny_llama(
        shape=LARGE,
        tensors={name: Tensor(name, sizes.get(name[10:14], other)) for name in names},
    )
    assert len(image.data) > LARGE_BYTES
    with path.open("wb") as file:
        os.truncate(path, len(image.data))
        data = np.frombuffer(image.data, np.uint8)
        for begin in range(0, len(data), 1 << 20):  # zeros stay holes
            if data[begin : begin + (1 << 20)].any():
                file.seek(begin)
                file.write(image.data[begin : begin + (1 << 20)])
    return path


def break_value(path: Path, at: int) -> None:
    """Put a NaN (of F32) there."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(np.float32(np.nan).tobytes())
