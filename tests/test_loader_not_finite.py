"""What counts as not finite is what ggml refuses, in every type, and is found where it is."""

from __future__ import annotations

import numpy as np
import pytest

from orin_llm._native import testing

INTEGERS = {24: 1, 25: 2, 26: 4, 27: 8}
NVFP4 = {40: 36}  # scales of its own, all finite
FLOATS = {0: 4, 1: 2, 30: 2}
F64 = {28: 8}  # ggml refuses what is no finite F32
QUANTIZED = {
    **{2: 18, 3: 20, 6: 22, 7: 24, 8: 34, 10: 84, 11: 110, 12: 144, 13: 176, 14: 210, 15: 292},
    **{16: 66, 17: 74, 18: 98, 19: 50, 20: 18, 21: 110, 22: 82, 23: 136, 29: 56},
    **{34: 54, 35: 66, 39: 17, 41: 18, 42: 18},
}
BYTES = INTEGERS | NVFP4 | FLOATS | F64 | QUANTIZED  # of a block, by ggml's number of the type


def sound_blocks(type_id: int, n: int, seed: int) -> np.ndarray:
    """[n, bytes of a block] of anything that ggml accepts."""
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (n, BYTES[type_id]), dtype=np.uint8)
    for block in blocks:
        while not testing.ggml_validates(type_id, block.tobytes()):
            block[:] = rng.integers(0, 256, len(block), dtype=np.uint8)
    return blocks


@pytest.mark.parametrize("type_id", INTEGERS | NVFP4 | FLOATS | QUANTIZED)
def test_single_blocks_of_random_bits_are_judged_as_by_ggml(type_id: int) -> None:
    rng = np.random.default_rng(type_id)
    refused = 0
    for _ in range(3000):
        block = rng.integers(0, 256, BYTES[type_id], dtype=np.uint8)
        if rng.integers(2):  # more of what matters than chance gives
            at = 2 * rng.integers(0, (len(block) + 1) // 2)
            block[at : at + 2] = (0xFF, 0xFF)[: len(block) - at]
        accepted = testing.ggml_validates(type_id, block.tobytes())
        refused += not accepted
        assert testing.find_not_finite(type_id, block.tobytes()) == (None if accepted else 0)
    assert (refused > 0) == (type_id in FLOATS | QUANTIZED)


@pytest.mark.parametrize("type_id", FLOATS | F64 | QUANTIZED)
@pytest.mark.parametrize("n", [1, 7, 5000])
def test_the_first_bad_block_of_many_is_found(type_id: int, n: int) -> None:
    blocks = sound_blocks(type_id, min(n, 50), seed=n)
    blocks = np.resize(blocks, (n, blocks.shape[1]))
    assert testing.find_not_finite(type_id, blocks.tobytes()) is None
    for at in {0, n // 2, n - 1}:
        broken = blocks.copy()
        broken[at:] = 0xFF
        assert testing.find_not_finite(type_id, broken.tobytes()) == at * blocks.shape[1]
