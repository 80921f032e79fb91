"""Rotary position embedding in float64, from its definition: the oracle of the RoPE tests."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

NORM, NEOX, MROPE, VISION, IMROPE = 0, 2, 8, 24, 40
MULTI = (MROPE, VISION, IMROPE)


@dataclass(frozen=True)
class Rope:
    """Parameters of a RoPE node, named as in llama.cpp."""

    mode: int = NORM
    n_dims: int = 64
    head_dim: int = 64
    n_offs: int = 0
    n_ctx_orig: int = 4096
    freq_base: float = 10000.0
    freq_scale: float = 1.0
    ext_factor: float = 0.0
    attn_factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    sections: tuple[int, int, int, int] = (0, 0, 0, 0)
    freq_factors: tuple[float, ...] = ()

    @property
    def n_pairs(self) -> int:
        return self.n_dims // 2

    @property
    def magnitude(self) -> float:
        """Factor on cos and sin: YaRN raises it with the logarithm of the extension."""
        yarn = 1.0 + 0.1 * math.log(1.0 / f32(self.freq_scale)) if self.ext_factor else 1.0
        return f32(self.attn_factor) * yarn


def f32(value: float) -> float:
    """The value a float32 parameter holds."""
    return float(np.float32(value))


def llama3_factors(rope_dims: int, base: float, *, factor: float = 8.0) -> tuple[float, ...]:
    """Llama 3.1's factors: long wavelengths are slowed, short ones kept, a ramp between."""
    low, high, old_context = 1.0, 4.0, 8192
    factors = []
    for pair in range(rope_dims // 2):
        wavelength = 2 * math.pi * base ** (2 * pair / rope_dims)
        smooth = np.clip((old_context / wavelength - low) / (high - low), 0.0, 1.0)
        factors.append(f32(1.0 / ((1 - smooth) / factor + smooth)))
    return tuple(factors)


def yarn_ramp(rope: Rope) -> NDArray[np.float64]:
    """Share of the unscaled angle per pair: 1 for pairs that turn often, 0 for slow ones."""

    def pair_turning(times: float) -> float:
        turns = rope.n_ctx_orig / (times * 2 * math.pi)
        return rope.n_dims * math.log(turns) / (2 * math.log(f32(rope.freq_base)))

    first = max(0, math.floor(pair_turning(rope.beta_fast)))
    last = min(rope.n_dims - 1, math.ceil(pair_turning(rope.beta_slow)))
    pairs = np.arange(rope.n_pairs)
    return 1 - np.clip((pairs - first) / max(0.001, last - first), 0, 1)


def rates(rope: Rope) -> NDArray[np.float64]:
    """Angle per unit of position, per pair. [n_pairs]"""
    factors = np.array(rope.freq_factors or np.ones(rope.n_pairs), np.float32).astype(np.float64)
    unscaled = f32(rope.freq_base) ** (-2 * np.arange(rope.n_pairs) / rope.n_dims) / factors
    keep = yarn_ramp(rope) * f32(rope.ext_factor) if rope.ext_factor else 0.0
    return unscaled * (f32(rope.freq_scale) * (1 - keep) + keep)


def axes(rope: Rope) -> NDArray[np.int64]:
    """Which position turns each pair: 0 time, 1 height, 2 width, 3 extra. [n_pairs]"""
    if rope.mode not in MULTI:
        return np.zeros(rope.n_pairs, np.int64)
    sector = np.arange(rope.n_pairs) % sum(rope.sections)
    if rope.mode == IMROPE:
        axis = sector % 3
        return np.where(sector < 3 * np.take(rope.sections, axis), axis, 3)
    return np.searchsorted(np.cumsum(rope.sections)[:3], sector, side="right")


def spread(rope: Rope, positions: NDArray[np.int32]) -> NDArray[np.int32]:
    """The positions as they are, or four different ones per token for the multi-section modes."""
    if rope.mode not in MULTI:
        return positions
    return np.stack([np.roll(positions, shift) for shift in (0, 1, 2, 3)])


def angles(rope: Rope, positions: NDArray[np.int32]) -> NDArray[np.float64]:
    """[n_tokens, n_pairs]; positions: [n_tokens], or [4, n_tokens] for the multi-section modes"""
    by_axis = np.atleast_2d(positions).astype(np.float64)
    return by_axis[axes(rope)].T * rates(rope)


def exact_rows(rope: Rope, positions: NDArray[np.int32]) -> NDArray[np.float64]:
    """(cos, sin) by the formula. [n_tokens, n_pairs, 2]"""
    angle = angles(rope, positions)
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1) * rope.magnitude


def float_error(rope: Rope, positions: NDArray[np.int32]) -> NDArray[np.float64]:
    """Bound on the error of cos and sin in float32 steps. [n_tokens, n_pairs]

    An angle is the product of 2 × pair + 8 rounded factors at most (the step from pair to pair
    is itself rounded), each off by 2^-24 of it; cos and sin add a rounding of their own.
    """
    roundings = 2 * np.arange(rope.n_pairs) + 8
    return (np.abs(angles(rope, positions)) * roundings + 2) * 2.0**-24 * rope.magnitude


def rotate(
    rope: Rope, x: NDArray[np.floating], positions: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Rotated copy. x: [n_batch, n_tokens, n_head, head_dim]"""
    angle = angles(rope, positions)[None, :, None, :]
    cos, sin = np.cos(angle) * rope.magnitude, np.sin(angle) * rope.magnitude
    first, second = pair_channels(rope)
    out = x.astype(np.float64)
    a, b = out[..., first], out[..., second]
    out[..., first], out[..., second] = a * cos - b * sin, a * sin + b * cos
    return out


def pair_channels(rope: Rope) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Channels of both members of each pair: neighbours (NORM), or half the rotated width apart."""
    pairs = np.arange(rope.n_pairs)
    if rope.mode == NORM:
        return rope.n_offs + 2 * pairs, rope.n_offs + 2 * pairs + 1
    return rope.n_offs + pairs, rope.n_offs + rope.n_pairs + pairs


def unit_pairs(rope: Rope, n_tokens: int) -> NDArray[np.float32]:
    """Input whose pairs are (1, 0): rotated, they are the row of (cos, sin) itself, exactly."""
    x = np.zeros((1, n_tokens, 1, rope.head_dim), np.float32)
    x[..., pair_channels(rope)[0]] = 1.0
    return x


def upstream_rows(rope: Rope, positions: NDArray[np.int32]) -> NDArray[np.float32]:
    """(cos, sin) as upstream has them without YaRN: float32, libm. [n_tokens, n_pairs, 2]"""
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    for name in ("cosf", "sinf", "powf"):
        getattr(libm, name).restype = ctypes.c_float
        arity = 2 if name == "powf" else 1
        getattr(libm, name).argtypes = [ctypes.c_float] * arity
    magnitude, scale = np.float32(rope.attn_factor), np.float32(rope.freq_scale)
    step = np.float32(libm.powf(rope.freq_base, float(np.float32(-2.0) / np.float32(rope.n_dims))))
    factors = np.array(rope.freq_factors or np.ones(rope.n_pairs), np.float32)
    rows = np.empty((positions.shape[-1], rope.n_pairs, 2), np.float32)
    for token, by_axis in enumerate(np.atleast_2d(positions).T):
        theta = by_axis.astype(np.float32)
        for pair, axis in enumerate(axes(rope)):
            angle = float(scale * (theta[axis] / factors[pair]))
            rows[token, pair, 0] = np.float32(libm.cosf(angle)) * magnitude
            rows[token, pair, 1] = np.float32(libm.sinf(angle)) * magnitude
            theta = theta * step
    return rows


def wrong_rows(rope: Rope, positions: NDArray[np.int32]) -> dict[str, NDArray[np.float64]]:
    """Rows of formulas that are easily written instead of the right one, where they differ."""
    exact = exact_rows(rope, positions)
    by_axis = np.atleast_2d(positions).astype(np.float64)
    turned = {
        "exponent": angles(replace(rope, n_dims=2 * rope.n_dims), positions)[:, : rope.n_pairs]
        if not rope.freq_factors and rope.mode not in MULTI
        else None,
        "base": angles(replace(rope, freq_base=1.001 * rope.freq_base), positions),
    }
    if rope.freq_factors:
        inverted = tuple(1 / f for f in rope.freq_factors)
        turned["inverted factor"] = angles(replace(rope, freq_factors=inverted), positions)
    if rope.freq_scale != 1:
        turned["no scale"] = angles(replace(rope, freq_scale=1.0), positions)
    if rope.ext_factor:
        turned["no ramp"] = angles(replace(rope, ext_factor=0.0), positions)
        swapped = replace(rope, beta_fast=rope.beta_slow, beta_slow=rope.beta_fast)
        turned["swapped ramp"] = angles(swapped, positions)
    if rope.mode in MULTI:
        time, height, *rest = rope.sections
        reordered = replace(rope, sections=(height, time, *rest))
        turned["sections out of order"] = angles(reordered, positions)
        turned["axes out of order"] = by_axis[[1, 0, 2, 3]][axes(rope)].T * rates(rope)
    wrong = {
        name: np.stack([np.cos(a), np.sin(a)], axis=-1) * rope.magnitude
        for name, a in turned.items()
        if a is not None
    }
    wrong["sign"] = exact * [1, -1]
    wrong["cos and sin swapped"] = exact[..., ::-1]
    if rope.magnitude != 1:
        wrong["no magnitude"] = exact / rope.magnitude
    return wrong
