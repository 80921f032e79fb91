"""Random rows of weights as ggml lays them out, and the float64 values of their bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]

# As WeightType in cuda/matrix.h numbers them.
NAMES = ("f16", "q8_0", "q4_0", "q4_1", "q4_K", "q5_K", "q6_K")
BLOCK_VALUES = {"f16": 1, "q8_0": 32, "q4_0": 32, "q4_1": 32, "q4_K": 256, "q5_K": 256, "q6_K": 256}
BLOCK_BYTES = {"f16": 2, "q8_0": 34, "q4_0": 18, "q4_1": 20, "q4_K": 144, "q5_K": 176, "q6_K": 210}


@dataclass(frozen=True)
class Weights:
    """A matrix of one type."""

    name: str
    rows: Bytes  # [n_rows, row_bytes]: blocks, then 0xEE
    values: Floats  # [n_rows, n_values]

    @property
    def type(self) -> int:
        return NAMES.index(self.name)


def row_bytes(name: str, n_values: int) -> int:
    """Of a row without anything behind it. n_values: whole blocks."""
    assert n_values % BLOCK_VALUES[name] == 0, f"{n_values} values are no whole blocks of {name}"
    return n_values // BLOCK_VALUES[name] * BLOCK_BYTES[name]


def random_weights(
    rng: np.random.Generator, name: str, n_rows: int, n_values: int, padding: int = 0
) -> Weights:
    """All bits of all quants are random; the scales are such that values are about ±0.1 around 0.

    `padding` bytes of 0xEE, which are no part of any block, come behind each row.
    """
    n_bytes = row_bytes(name, n_values)
    blocks = rng.integers(
        0, 256, (n_rows, n_bytes // BLOCK_BYTES[name], BLOCK_BYTES[name]), np.uint8
    )
    _put_scales(rng, name, blocks)
    rows = np.full((n_rows, n_bytes + padding), 0xEE, np.uint8)
    rows[:, :n_bytes] = blocks.reshape(n_rows, n_bytes)
    return Weights(name, rows, unpack(name, rows, n_values))


def unpack(name: str, rows: Bytes, n_values: int) -> Floats:
    """The values of rows [n_rows, row_bytes]; what is behind their blocks is ignored."""
    n_bytes = row_bytes(name, n_values)
    blocks = np.ascontiguousarray(rows[:, :n_bytes]).reshape(-1, BLOCK_BYTES[name])
    return _UNPACK[name](blocks).reshape(len(rows), n_values)


def _put_scales(rng: np.random.Generator, name: str, blocks: Bytes) -> None:
    shape = blocks.shape[:2]
    d = rng.uniform(0.5, 1.5, shape) * rng.choice((-1, 1), shape)
    low = d * rng.uniform(0.8, 1.2, shape) * 7.5  # what a quant of 4 bits is on average
    if name == "f16":
        _put(blocks, 0, rng.normal(size=shape) * 0.05)
    elif name == "q8_0":
        _put(blocks, 0, d * 0.1 / 127)
    elif name == "q4_0":
        _put(blocks, 0, d * 0.1 / 8)
    elif name == "q4_1":
        _put(blocks, 0, d * 0.1 / 8)
        _put(blocks, 2, -low * 0.1 / 8)
    elif name == "q4_K":
        _put(blocks, 0, d * 0.1 / 8 / 32)
        _put(blocks, 2, low * 0.1 / 8 / 32)
    elif name == "q5_K":
        _put(blocks, 0, d * 0.1 / 16 / 32)
        _put(blocks, 2, 2 * low * 0.1 / 16 / 32)
    elif name == "q6_K":
        _put(blocks, 208, d * 0.1 / 32 / 64)


def _put(blocks: Bytes, at: int, values: Floats) -> None:
    blocks[..., at : at + 2] = values.astype("<f2")[..., None].view(np.uint8)


def _half(blocks: Bytes, at: int) -> Floats:
    """[n_blocks, 1]"""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float64)


def _nibbles(packed: Bytes) -> Floats:
    """[…, n] bytes: the n low halves, then the n high ones."""
    return np.concatenate((packed & 15, packed >> 4), axis=-1).astype(np.float64)


def _f16(blocks: Bytes) -> Floats:
    return _half(blocks, 0)


def _q8_0(blocks: Bytes) -> Floats:
    return _half(blocks, 0) * blocks[:, 2:].view(np.int8)


def _q4_0(blocks: Bytes) -> Floats:
    return _half(blocks, 0) * (_nibbles(blocks[:, 2:]) - 8)


def _q4_1(blocks: Bytes) -> Floats:
    return _half(blocks, 0) * _nibbles(blocks[:, 4:]) + _half(blocks, 2)


def _scales_and_minima(packed: Bytes) -> tuple[Floats, Floats]:
    """Of the last four of 8 scales and 8 minima, 6 bits each, the high bits are with the first."""
    first, second, third = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate((first & 63, third & 15 | first >> 6 << 4), axis=1)
    minima = np.concatenate((second & 63, third >> 4 | second >> 6 << 4), axis=1)
    return scales.astype(np.float64), minima.astype(np.float64)


def _k_groups(blocks: Bytes, quants: Floats) -> Floats:
    """quants: [n_blocks, 8, 32]"""
    scales, minima = _scales_and_minima(blocks[:, 4:16])
    scales, minima = _half(blocks, 0) * scales, _half(blocks, 2) * minima
    return scales[:, :, None] * quants - minima[:, :, None]


def _q4_k(blocks: Bytes) -> Floats:
    return _k_groups(blocks, _nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32))


def _q5_k(blocks: Bytes) -> Floats:
    low = _nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    high = blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    return _k_groups(blocks, low + 16.0 * high)


def _q6_k(blocks: Bytes) -> Floats:
    """Two halves of 128 values: 64 bytes have the low halves of 64 quants, then the other 64."""
    low: Floats = _nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    shifts = np.array((0, 2, 4, 6), np.uint8)[:, None]
    high = blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts & 3
    scales = _half(blocks, 208) * blocks[:, 192:208].view(np.int8)
    quants = (low + 16.0 * high - 32).reshape(-1, 16, 16)
    values: Floats = scales[:, :, None] * quants
    return values


_UNPACK: dict[str, Callable[[Bytes], Floats]] = {
    "f16": _f16,
    "q8_0": _q8_0,
    "q4_0": _q4_0,
    "q4_1": _q4_1,
    "q4_K": _q4_k,
    "q5_K": _q5_k,
    "q6_K": _q6_k,
}
