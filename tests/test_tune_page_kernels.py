"""Times of kernels by page size: of every size, for the work that they say, at the right cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from attention_cases import Model, Sequence, make_step
from attention_float64 import decode

from orin_llm.engine.loaded_model import read_model_header
from orin_llm.gguf.kv_types import KV_TYPES
from orin_llm.tune.page_kernels import page_kernels

VALUE = 0.5  # that is written: exact in every type


@pytest.mark.parametrize("kv_type", list(KV_TYPES))
def test_what_is_timed_writes_the_cells_of_its_positions_and_no_others(kv_type: str) -> None:
    model = Model(2, 2, 64, 64, k_type=kv_type, v_type=kv_type)
    step = make_step(model, [Sequence(40, 5), Sequence(9, 3)], page_size=8, seed=1)
    before = [decode(part.copy(), kv_type) for part in (step.k, step.v)]
    assert step.probe().time_write(n_threads=1, n_repeats=2) > 0
    written = sorted(int(step.cells(token)[-1]) for token in range(len(step.positions)))
    assert len(written) == 8
    for stored, old in zip((step.k, step.v), before, strict=True):
        now = decode(stored, kv_type)[:, : 2 * 64]
        assert np.allclose(now[written], VALUE, rtol=0, atol=1e-3)
        others = np.setdiff1d(np.arange(len(now)), written)
        assert np.array_equal(now[others], old[others, : 2 * 64], equal_nan=True)


def test_every_page_size_has_times(tiny_model: Path) -> None:
    found = page_kernels(read_model_header(tiny_model), "f16", [8, 16, 256], depth=100, threads=1)
    assert list(found) == [8, 16, 256]
    assert all(times.attention_us > 0 and times.write_us > 0 for times in found.values())
