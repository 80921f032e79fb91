"""Our quantizers: block for block the bytes of ggml's own, whatever the weights are."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from orin_llm import _native

testing = _native.testing
pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="elsewhere compilers fuse sums of ggml's own"
)
TYPES = ("q4_K", "q5_K", "q6_K", "iq4_nl", "iq4_xs")
Floats = NDArray[np.float32]


def assert_same_bytes(name: str, x: Floats, importance: Floats | None) -> None:
    ours, stock = (testing.quantize_rows(name, x, importance, stock=who) for who in (False, True))
    np.testing.assert_array_equal(ours, stock)


def rows(kind: str, rng: np.random.Generator) -> Floats:
    x = rng.standard_normal((24, 512)).astype(np.float32)
    blocks = x.reshape(-1, 16)
    if kind == "outliers":
        x[rng.random(x.shape) < 0.02] *= 100
    elif kind == "above 0":
        np.abs(x, out=x)
    elif kind == "below 0":
        np.negative(np.abs(x), out=x)
    elif kind == "few values":
        x[:] = rng.integers(-1, 2, x.shape)
    elif kind == "empty blocks":
        blocks[rng.random(len(blocks)) < 0.7] = 0
    elif kind == "flat blocks":
        blocks[:] = rng.integers(-2, 3, (len(blocks), 1))
    elif kind == "far apart":  # the scales of small blocks round to 0 beside the largest
        blocks *= 10.0 ** rng.integers(-6, 1, (len(blocks), 1))
    elif kind == "tiny":
        x *= np.float32(1e-36)
    elif kind == "large":
        x *= np.float32(1e5)
    return x


KINDS = ["normal", "outliers", "above 0", "below 0", "few values", "empty blocks", "flat blocks"]
KINDS += ["far apart", "tiny", "large"]


@pytest.mark.parametrize("weights", ["none", "any", "mostly 0", "0"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TYPES)
def test_blocks_are_ggmls(name: str, kind: str, weights: str) -> None:
    rng = np.random.default_rng(len(kind))
    x = rows(kind, rng)
    importance = rng.gamma(0.5, size=512).astype(np.float32)
    if weights == "mostly 0":
        importance[rng.random(512) < 0.9] = 0
    assert_same_bytes(name, x, {"none": None, "0": 0 * importance}.get(weights, importance))


finite: Any = st.floats(-65504, 65504, width=32)


@settings(max_examples=60)
@given(st.sampled_from(TYPES), arrays(np.float32, (1, 256), elements=finite))
def test_any_block_is_ggmls(name: str, x: Floats) -> None:
    assert_same_bytes(name, x, None)
    assert_same_bytes(name, x, np.abs(x[0, ::-1]).copy())


@pytest.mark.parametrize("n", [32, 64, 224, 288, 576])
def test_rows_need_not_be_whole_groups_of_blocks(n: int) -> None:
    rng = np.random.default_rng(n)
    x = rng.standard_normal((5, n)).astype(np.float32)
    assert_same_bytes("iq4_nl", x, None)
    assert_same_bytes("iq4_nl", x, rng.gamma(0.5, size=n).astype(np.float32))
