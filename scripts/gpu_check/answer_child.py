"""Lets an engine write answers of a fixed length and prints the gaps between their tokens.

    python -m gpu_check.answer_child MODEL TOKENS RUNS THREADS

The first answer does not count. Times are those of the engine's thread.
"""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path

from orin_llm.bench.runner import EngineRunner
from orin_llm.bench.scenarios import scenarios
from orin_llm.engine import Engine, EngineConfig

_PROMPT = 32


def main() -> None:
    model = Path(sys.argv[1])
    n_tokens, n_runs, threads = map(int, sys.argv[2:])
    (scenario,) = scenarios("single", {"-p": str(_PROMPT), "-n": str(n_tokens)})
    config = EngineConfig(n_ctx=scenario.n_ctx, max_batch=1, threads=threads, publish=False)
    itl_ms = []
    with Engine(model, config) as engine:
        workload = scenario.build(engine.n_vocab, seed=0)
        for _ in range(1 + n_runs):
            run = EngineRunner(engine).run(workload)
            run.require_all_completed()
            times = run.requests[0].token_ms
            itl_ms.append([after - before for before, after in pairwise(times)])
    print(json.dumps({"itl_ms": itl_ms[1:]}))


if __name__ == "__main__":
    main()
