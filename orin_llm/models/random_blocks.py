"""Random weights made directly as quantized blocks: no float matrix exists at any time.

Each maker turns uniform random bytes into blocks of its type by overwriting the scales, so that
the decoded weights have a mean of 0 and the standard deviation asked for. The mean matters as much
as the deviation: a common offset of a few percent grows with the square root of the width in each
layer until every hidden state points the same way.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

_CHUNK_BYTES = 8 << 20


def _spread(random: Bytes, scale: float) -> NDArray[np.float32]:
    """Scales within 25 % of `scale`, so that a kernel that mixes up blocks is caught: [n]."""
    steps = random.astype(np.float32) / 255.0  # 0 … 1
    return scale * (0.75 + 0.5 * steps)


# Deviation of a weight divided by the mean scale of its block: sqrt(1 + variance of the spread).
_SPREAD_RMS = math.sqrt(1.0 + 0.25 / 12.0)


def _put_f16(blocks: Bytes, at: int, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Writes half floats at byte `at` of each block; returns what they decode to."""
    half = values.astype("<f2")
    blocks[:, at : at + 2] = half.view(np.uint8).reshape(-1, 2)
    return half.astype(np.float32)


def _f16(blocks: Bytes, std: float) -> None:
    # Uniform in ± sqrt(3) std. blocks: [n, 2]
    uniform = blocks.view("<i2").astype(np.float32)
    _put_f16(blocks, 0, uniform.reshape(-1) * np.float32(std * math.sqrt(3.0) / 32768.0))


def _q8_0(blocks: Bytes, std: float) -> None:
    # [n, 34]: d, 32 signed quants
    quants = blocks[:, 2:].view(np.int8)
    quants[quants == -128] = 0  # the values left are symmetric
    scale = std / (73.6 * _SPREAD_RMS)
    _put_f16(blocks, 0, _spread(blocks[:, 0], scale))


def _q4_0(blocks: Bytes, std: float) -> None:
    # [n, 18]: d, 32 quants of 4 bits, minus 8. Their mean is -0.5: a random sign of d cancels it.
    sign = np.where(blocks[:, 1] & 1, np.float32(1), np.float32(-1))
    scale = std / (4.64 * _SPREAD_RMS)
    _put_f16(blocks, 0, sign * _spread(blocks[:, 0], scale))


_Q4_K_MIN_SHIFT = np.array([-2, -1, -1, 0, 0, 1, 1, 2], dtype=np.int8)


def _q4_k(blocks: Bytes, std: float) -> None:
    # [n, 144]: d, dmin, 8 scales and 8 mins of 6 bits, 256 quants of 4 bits.
    # A weight is d * scale * q - dmin * min with a mean q of 7.5: dmin = 7.5 d and mins that lie
    # evenly around the scales make the mean 0.
    random = blocks[:, 4:12].copy()
    scales = 30 + (random & 31)
    mins = (scales.view(np.int8) + _Q4_K_MIN_SHIFT[random >> 5]).view(np.uint8)
    # Packed as six bits each: the first four plain, the high two bits of the last four above them.
    blocks[:, 4:8] = scales[:, :4] | (scales[:, 4:] >> 4) << 6
    blocks[:, 8:12] = mins[:, :4] | (mins[:, 4:] >> 4) << 6
    blocks[:, 12:16] = (scales[:, 4:] & 15) | (mins[:, 4:] & 15) << 4
    scale = std / (4.61 * 46.4 * _SPREAD_RMS)
    d = _put_f16(blocks, 0, _spread(blocks[:, 0], scale))
    _put_f16(blocks, 2, 7.5 * d)


_Q6_K_SCALES = np.array(
    [(64 + (b & 63)) * (1 if b & 128 else -1) for b in range(256)], dtype=np.int8
)


def _q6_k(blocks: Bytes, std: float) -> None:
    # [n, 210]: 256 quants of 6 bits, minus 32, in two parts; 16 signed scales of 8 bits; d.
    # The quants' mean is -0.5: scales of random sign cancel it.
    blocks[:, 192:208] = _Q6_K_SCALES[blocks[:, 192:208]].view(np.uint8)
    scale = std / (18.48 * 97.3 * _SPREAD_RMS)
    _put_f16(blocks, 208, _spread(blocks[:, 208], scale))


_MAKERS: dict[str, tuple[int, Callable[[Bytes, float], None]]] = {  # type: (bytes per block, maker)
    "F16": (2, _f16),
    "Q8_0": (34, _q8_0),
    "Q4_0": (18, _q4_0),
    "Q4_K": (144, _q4_k),
    "Q6_K": (210, _q6_k),
}


def random_blocks(
    ggml_type: str, nbytes: int, *, std: float, seed: int, name: str
) -> Iterator[Bytes]:
    """The data of one tensor, in chunks of a few MiB.

    Args:
        ggml_type: a type that `quant_mix` chooses for matrices.
        nbytes: the tensor's size, whole blocks.
        std: the standard deviation of its weights.
        seed, name: together they fix the data, whatever other tensors the file has.
    """
    block_bytes, fill = _MAKERS[ggml_type]
    generator = _generator(seed, name)
    chunk_bytes = _CHUNK_BYTES // (8 * block_bytes) * (8 * block_bytes)  # whole blocks, whole words
    for start in range(0, nbytes, chunk_bytes):
        size = min(chunk_bytes, nbytes - start)
        words = generator.random_raw(-(-size // 8)).astype("<u8", copy=False)
        blocks = words.view(np.uint8)[:size].reshape(-1, block_bytes)
        fill(blocks, std)
        yield blocks


def random_norm(n: int, *, seed: int, name: str) -> NDArray[np.float32]:
    """Norm weights around 1, not equal, so that a kernel that leaves them out is caught: [n]."""
    random = _generator(seed, name).random_raw(n).astype("<u8", copy=False).view(np.uint8)[::8]
    return _spread(random, 1.0).astype("<f4", copy=False)


def _generator(seed: int, name: str) -> np.random.PCG64:
    # Raw output only is taken from it: numpy keeps that stream stable over its versions.
    return np.random.PCG64(np.random.SeedSequence([seed, zlib.crc32(name.encode())]))
