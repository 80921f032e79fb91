"""An importance matrix collected on a GPU is the CPU's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gpu.conftest import OpenEngine
from gpu.emulated import EmulatedGpu
from imatrix_cases import random_experts
from imatrix_collecting import N_CTX, Sums, collected, text_windows

from orin_llm import _native
from orin_llm.engine import Engine
from orin_llm.errors import OrinError

WINDOWS = text_windows(3)


def collector(engine: Engine) -> _native.ImatrixCollector:
    return _native.ImatrixCollector(engine.model, n_ctx=N_CTX, threads=1, process_output=False)


def assert_alike(found: Sums, expected: Sums, tolerance: float) -> None:
    assert set(found) == set(expected)
    for name, (sums, counts) in expected.items():
        assert found[name][1].tolist() == counts.tolist()
        assert np.abs(found[name][0] - sums).max() < tolerance * sums.max(), name


# What attention keeps is f16 on both, and summed in another order.
@pytest.mark.parametrize("layers", [-1, 1])
def test_the_sums_are_those_of_the_cpu(open_engine: OpenEngine, model: Path, layers: int) -> None:
    on_gpu, on_cpu = (open_engine(model, gpu_layers=n, hooks="none") for n in (layers, 0))
    assert on_gpu.model.device != "cpu"
    assert_alike(collected(on_gpu, WINDOWS), collected(on_cpu, WINDOWS), 2e-3)


def test_experts_get_the_tokens_that_they_get_on_the_cpu(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    path = tmp_path / "experts.gguf"
    path.write_bytes(random_experts().data)
    on_gpu, on_cpu = (open_engine(path, gpu_layers=n, hooks="none") for n in (-1, 0))
    found, expected = collected(on_gpu, WINDOWS), collected(on_cpu, WINDOWS)
    for layer in (0, 1):
        sums, counts = found[f"blk.{layer}.ffn_up_exps.weight"]
        assert counts.sum() == 2 * 3 * N_CTX
        # A token whose experts are nearly alike to the router may go to another.
        moved = np.abs(counts - expected[f"blk.{layer}.ffn_up_exps.weight"][1]).sum()
        assert moved <= 4
        # Two experts read each token's input, which is also the router's.
        router, _ = found[f"blk.{layer}.ffn_gate_inp.weight"]
        np.testing.assert_allclose(sums.sum(0), 2 * router[0], rtol=1e-5)


def test_inputs_that_several_matrices_read_are_brought_once(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path
) -> None:
    collecting = collector(open_engine(model, hooks="none"))
    collecting.add_window(WINDOWS[0])
    emulated.reset_counters()
    collecting.add_window(WINDOWS[0])
    # For Q, K and V; the projection behind attention; gate and up; down: in each of two layers.
    assert emulated.counters()["blocking_gets"] == 2 * 4


def test_a_failure_on_the_gpu_is_an_error_and_adds_nothing(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path
) -> None:
    collecting = collector(open_engine(model, hooks="none"))
    collecting.add_window(WINDOWS[0])
    before = collecting.entries()
    emulated.fail_call(40)
    with pytest.raises(OrinError, match="a window could not be computed on the GPU"):
        collecting.add_window(WINDOWS[1])
    emulated.fail_call(0)
    assert_alike(collecting.entries(), before, 1e-30)


def test_inputs_of_a_window_that_failed_are_not_taken_for_those_of_the_next(
    open_engine: OpenEngine, model: Path
) -> None:
    engine = open_engine(model, hooks="none")
    first, second = WINDOWS[:2]
    alone, collecting = collector(engine), collector(engine)
    alone.add_window(second)
    # Q, K and V read the same inputs, and one of them fails behind another.
    for name, width in ((b"blk.0.attn_k.weight", 7), (b"blk.0.attn_q.weight", 7)):
        collecting.put(name, np.zeros((1, width), np.float32), np.array([0]))
        with pytest.raises(OrinError, match="of another model"):
            collecting.add_window(first)
        collecting.put(name, np.zeros((1, 128), np.float32), np.array([0]))
    collecting.add_window(second)
    assert_alike(collecting.entries(), alone.entries(), 1e-30)
