"""Our quantizers: block for block the bytes of ggml's own, whatever the weights are."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from quantize_rows import IMPORTANCES, KINDS, TYPES, Floats, bell, importance, rows

from orin_llm import _native

testing = _native.testing
pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64",
    reason="elsewhere compilers fuse sums of ggml's own; ours are held to quantize_digests.json",
)


def assert_same_bytes(name: str, x: Floats, weights: Floats | None) -> None:
    ours, stock = (testing.quantize_rows(name, x, weights, stock=who) for who in (False, True))
    np.testing.assert_array_equal(ours, stock)


@pytest.mark.parametrize("weights", IMPORTANCES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TYPES)
def test_blocks_are_ggmls(name: str, kind: str, weights: str) -> None:
    assert_same_bytes(name, rows(kind), importance(weights))


finite: Any = st.floats(-65504, 65504, width=32)


@settings(max_examples=60)
@given(st.sampled_from(TYPES), arrays(np.float32, (1, 256), elements=finite))
def test_any_block_is_ggmls(name: str, x: Floats) -> None:
    assert_same_bytes(name, x, None)
    assert_same_bytes(name, x, np.abs(x[0, ::-1]).copy())


@pytest.mark.parametrize("n", [32, 64, 224, 288, 576])
def test_rows_need_not_be_whole_groups_of_blocks(n: int) -> None:
    x = bell(np.random.default_rng(n), (5, n))
    assert_same_bytes("iq4_nl", x, None)
    assert_same_bytes("iq4_nl", x, importance("any", n))
