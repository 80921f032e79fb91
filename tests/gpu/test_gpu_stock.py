"""llama.cpp's own graphs on the GPU: the CPU's text, in captured graphs."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu.conftest import OpenEngine
from gpu.emulated import EmulatedGpu
from greedy import greedy_text

from orin_llm.engine import Engine

# Weights are packed and summed in another order on the CPU.
TIE = 0.05


def texts_agree(engines: list[Engine], prompt: list[int], n: int) -> bool:
    on_gpu, on_cpu = (greedy_text(engine, prompt, n) for engine in engines)
    return on_gpu.agrees_with(on_cpu, TIE)


@pytest.mark.parametrize("kv_type", ["f16", "q8_0", "q8_0:f16"])
def test_a_small_model_writes_the_text_that_the_cpu_writes(
    open_engine: OpenEngine, model: Path, kv_type: str
) -> None:
    engines = [
        open_engine(model, hooks="none", kv_type=kv_type, gpu_layers=layers) for layers in (-1, 0)
    ]
    assert engines[0].model.device != "cpu" and engines[1].model.device == "cpu"
    assert texts_agree(engines, list(range(5, 60)), 40)


def test_smollm2_writes_the_text_that_the_cpu_writes(
    open_engine: OpenEngine, smollm2: Path
) -> None:
    engines = [open_engine(smollm2, hooks="none", gpu_layers=layers) for layers in (-1, 0)]
    prompt = engines[0].tokenize("The capital of France is")
    assert texts_agree(engines, prompt, 12)


def test_steps_of_one_token_are_one_captured_graph(
    emulated: EmulatedGpu, open_engine: OpenEngine, small_model: Path
) -> None:
    engine = open_engine(small_model, hooks="none")
    emulated.reset_counters()
    greedy_text(engine, [5, 6, 7], 20)
    counted = emulated.counters()
    assert counted["graphs_captured"] == 1
    assert counted["graphs_replayed"] >= 17
