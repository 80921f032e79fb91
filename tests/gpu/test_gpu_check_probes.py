"""What scripts/gpu_check asks of a GPU besides engines: logits, batches and products of stock."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gpu.conftest import OpenEngine
from weight_blocks import random_weights

from gpu_check.probes import probes


def test_llama_cpps_own_batches_run_beside_an_engine(model: Path, open_engine: OpenEngine) -> None:
    engine = open_engine(model)
    batch = probes().StockBatch(
        engine.model, n_ctx=64, n_seq=3, chunk_size=32, threads=1, k_type="f16", v_type="f16"
    )
    times = batch.run(20, 4)
    assert len(times) == 4 and times == sorted(times) and times[0] > 0


def test_stocks_product_is_made_on_the_gpu() -> None:
    rng = np.random.default_rng(2)
    weights = random_weights(rng, "q4_K", 16, 256)
    x = rng.normal(size=(2, 256)).astype(np.float32)
    found = probes().stock_product("q4_K", weights.rows, x, gpu=True)
    exact = x.astype(np.float64) @ weights.values.T
    assert np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)) < 0.02
