"""Times requests at once: our engine and llama.cpp's own batches without a hook, taking turns.

    python -m gpu_check.batches_child MODEL THREADS PROMPT ANSWER REPETITIONS STREAMS…

A line of JSON for each, as `orin-llm bench -o jsonl` has them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gpu_check.probes import probes
from orin_llm.bench.lengths import Lengths
from orin_llm.bench.records import RequestRecord, Run
from orin_llm.bench.result import Conditions
from orin_llm.bench.runner import EngineRunner
from orin_llm.bench.streams import Streams
from orin_llm.bench.turns import Contender, alternate
from orin_llm.bench.workload import Workload
from orin_llm.engine import Engine, EngineConfig

_WARMUP = 1


class StockBatches:
    """Our llama.cpp without hooks, which samples nothing."""

    def __init__(self, engine: Engine, scenario: Streams) -> None:
        self.settings: dict[str, object] = {"name": "llama.cpp, batched"}
        self._batch = probes().StockBatch(
            engine.model,
            n_ctx=scenario.n_ctx,
            n_seq=scenario.streams,
            chunk_size=engine.chunk_size,
            threads=engine.threads,
            k_type=engine.config.kv_types.k.name,
            v_type=engine.config.kv_types.v.name,
        )

    def run(self, workload: Workload) -> Run:
        submissions = workload.waves[0].submissions
        n_prompt, n_tokens = len(submissions[0].prompt), submissions[0].max_tokens
        times = tuple(self._batch.run(n_prompt, n_tokens))
        request = RequestRecord(submissions[0].role, 0.0, times, times[-1], n_prompt)
        return Run((request,) * len(submissions))


def main() -> None:
    model, threads, prompt, answer, repetitions = sys.argv[1:6]
    for streams in map(int, sys.argv[6:]):
        scenario = Streams(streams, _fixed(prompt), _fixed(answer))
        config = EngineConfig(
            n_ctx=scenario.n_ctx, max_batch=streams, threads=int(threads), publish=False
        )
        with Engine(Path(model), config) as engine:
            contenders: list[Contender[Workload, Run]] = [
                EngineRunner(engine),
                StockBatches(engine, scenario),
            ]
            workload = scenario.build(engine.n_vocab, seed=0)
            runs = alternate(contenders, workload, _WARMUP, int(repetitions), lambda text: None)
            conditions = Conditions(scenario, engine.chunk_size, _WARMUP, 0)
            for contender, its_runs in zip(contenders, runs, strict=True):
                result = conditions.result(contender.settings, its_runs, runs[0])
                print(json.dumps(result.to_dict()), flush=True)
            del contenders  # a context ends before its model


def _fixed(length: str) -> Lengths:
    return Lengths(int(length), int(length))


if __name__ == "__main__":
    main()
