"""The knobs of a GPU reach the engines that tuning measures."""

from __future__ import annotations

from pathlib import Path

from orin_llm.engine import Engine, EngineConfig
from orin_llm.tune.bench import Effort
from orin_llm.tune.engine_bench import EngineBench
from orin_llm.tune.goal import Goal
from orin_llm.tune.spaces import default_space
from orin_llm.tune.work import Work

WORK = Work((16, 40), 4, 3, 8, 4)


def test_every_choice_of_kernels_is_what_an_engine_computes_with(tiny_model: Path) -> None:
    base, goal = EngineConfig(max_batch=4), Goal("balanced")
    space = default_space(base, goal, WORK, on_gpu=True)
    chosen = [
        space.default.having(knob.name, value)
        for knob in space.knobs
        if knob.target == "kernels"
        for value in knob.values[1:]
    ]
    assert len(chosen) == 8
    engines: list[Engine] = []

    def load(path: Path, config: EngineConfig) -> Engine:
        engines.append(Engine(path, config))
        return engines[-1]

    with EngineBench(tiny_model, base, space, goal, WORK, load) as bench:
        for candidate in chosen:
            found = bench.measure(candidate, Effort())
            assert found.tpot_ms and found.tokens_per_s and found.ttft_ms[40] > 0
            kernels = engines[-1].backend["kernels"]
            wanted = space.config(candidate, base).kernels.chosen
            for name, value in wanted.items():
                assert kernels.get(name, kernels["vector_tokens_f16"]) == value
