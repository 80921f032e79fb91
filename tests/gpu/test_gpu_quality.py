"""Logits of whole windows on a GPU: the CPU's, whatever hooks and KV types there are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gpu.emulated import EmulatedGpu
from gpu_under_test import KIND
from numpy.typing import NDArray

from orin_llm.engine import EngineConfig
from orin_llm.errors import OrinError
from orin_llm.quality.window_logits import WindowLogits
from orin_llm.quality.windows import Window

N = 64
TOKENS = np.random.default_rng(7).integers(3, 300, N).astype(np.int32)
WINDOW = Window(TOKENS[:-1], N // 2, TOKENS[N // 2 + 1 :])
CONFIG = EngineConfig(n_ctx=N, threads=1, chunk_size=24)

# Of logits, whose own root mean square is about 1; see test_gpu_paged.
ROUNDING = {"f16": 2e-3, "q8_0": 1e-2, "q4_0": 0.1}
WEIGHTS = 0.0 if KIND == "emulated" else 0.02


def rows_of(model: WindowLogits, *, one_by_one: bool) -> NDArray[np.float32]:
    return np.concatenate([rows for rows, _ in model.blocks(WINDOW, one_by_one=one_by_one)])


@pytest.mark.parametrize("hooks", ["all", "none", "-gather", "-matrices,-lanes"])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_window_has_the_cpus_logits(model: Path, hooks: str, one_by_one: bool) -> None:
    config = replace(CONFIG, hooks=hooks)
    with (
        WindowLogits(model, config) as on_gpu,
        WindowLogits(model, replace(config, gpu_layers=0)) as on_cpu,
    ):
        assert on_gpu.model.device != "cpu" == on_cpu.model.device
        assert on_gpu.is_paged == (hooks != "none")
        found, wanted = (rows_of(one, one_by_one=one_by_one) for one in (on_gpu, on_cpu))
        assert found.shape == (N - 1 - N // 2, on_gpu.loaded.n_vocab)
        tolerance = ROUNDING["f16"] * (4 if hooks == "none" else 1) + WEIGHTS
        assert np.sqrt(np.mean((found - wanted) ** 2)) < tolerance
        np.testing.assert_array_equal(rows_of(on_gpu, one_by_one=one_by_one), found)


@pytest.mark.parametrize("kv_type", ["q8_0", "q4_0"])
def test_quantized_caches_have_the_cpus_logits(model: Path, kv_type: str) -> None:
    config = replace(CONFIG, kv_type=kv_type)
    with (
        WindowLogits(model, config) as on_gpu,
        WindowLogits(model, replace(config, gpu_layers=0)) as on_cpu,
    ):
        found, wanted = (rows_of(one, one_by_one=False) for one in (on_gpu, on_cpu))
        assert np.sqrt(np.mean((found - wanted) ** 2)) < ROUNDING[kv_type] + WEIGHTS


def test_a_failed_call_ends_the_window_and_not_the_model(
    model: Path, emulated: EmulatedGpu
) -> None:
    with WindowLogits(model, CONFIG) as on_gpu:
        whole = rows_of(on_gpu, one_by_one=False)
        emulated.fail_call(30)
        with pytest.raises(OrinError, match="failed on the GPU"):
            rows_of(on_gpu, one_by_one=False)
        assert emulated.counters()["asked_failures"] == 1
        np.testing.assert_array_equal(rows_of(on_gpu, one_by_one=False), whole)
