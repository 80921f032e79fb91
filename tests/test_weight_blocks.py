"""Our reading of ggml's blocks against the one of the gguf package."""

from __future__ import annotations

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType as Type
from gguf.quants import dequantize
from weight_blocks import NAMES, random_weights


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_that_gguf_reads(name: str) -> None:
    weights = random_weights(np.random.default_rng(0), name, 5, 768, padding=16)
    blocks = np.ascontiguousarray(weights.rows[:, :-16])
    if name == "f16":
        expected = blocks.view(np.float16).astype(np.float32)
    else:
        expected = dequantize(blocks, Type[name.upper()])
    np.testing.assert_allclose(weights.values, expected, rtol=1e-5, atol=1e-6)
    assert 0.02 < np.abs(weights.values).mean() < 0.2
    assert abs(weights.values.mean()) < 0.05
