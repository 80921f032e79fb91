"""What the check holds ours against: llama.cpp's own products and batches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import CLI
from weight_blocks import random_weights

from orin_llm import _native

testing = _native.testing
ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name", ["f16", "q8_0", "q4_K", "q6_K"])
def test_stocks_product_is_that_of_the_weights_but_for_8_bit_activations(name: str) -> None:
    rng = np.random.default_rng(1)
    weights = random_weights(rng, name, 8, 512)
    x = rng.normal(size=(3, 512)).astype(np.float32)
    found = testing.stock_product(name, weights.rows, x, gpu=False)
    exact = x.astype(np.float64) @ weights.values.T
    assert found.shape == (3, 8)
    assert np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)) < 0.02


def test_rows_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="rows of q8_0 as long as those of x"):
        testing.stock_product("q8_0", np.zeros((2, 34), np.uint8), np.zeros((1, 64)), gpu=False)


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with weights in F16."""
    path = tmp_path_factory.mktemp("models") / "halves.gguf"
    command = [*CLI, "models", "synth", "--shape", "tiny", "--quant", "F16", "-q", str(path)]
    subprocess.run(command, check=True)
    return path


def test_batches_are_timed_beside_llama_cpps_own(halves: Path) -> None:
    threads, prompt, answer, repetitions, streams = "1", "40", "64", "2", ("2", "3")
    arguments = [str(halves), threads, prompt, answer, repetitions, *streams]
    done = subprocess.run(
        [sys.executable, "-m", "gpu_check.batches_child", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "scripts", ROOT)))},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(r["engine"]["name"], r["workload"]["streams"]) for r in results] == [
        ("orin-llm all", 2), ("llama.cpp, batched", 2),
        ("orin-llm all", 3), ("llama.cpp, batched", 3),
    ]  # fmt: skip
    for ours, stock in zip(results[::2], results[1::2], strict=True):
        assert ours["completed"] == stock["completed"] == 2 * ours["workload"]["streams"]
        assert ours["speedup"] == {} and stock["speedup"]["decode_tokens_per_s"]["median"] > 0
        assert stock["figures"]["prefill_tokens_per_s"]["median"] > 0
