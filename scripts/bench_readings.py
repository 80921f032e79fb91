#!/usr/bin/env python3
"""What reading the sensors costs the engine: the same runs with and without it, taking turns.

    scripts/bench_readings.py MODEL.gguf
    scripts/bench_readings.py MODEL.gguf --threads 2 --interval 10 --repetitions 41

Prints how many times as long TTFT and TPOT are with a reader beside them, with the 95 % confidence
interval: above 1 it costs something, and where that holds 1 nothing can be told from nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from orin_llm.bench.lengths import Lengths
from orin_llm.bench.metrics import figures
from orin_llm.bench.ratios import paired
from orin_llm.bench.records import Run
from orin_llm.bench.runner import EngineRunner
from orin_llm.bench.streams import Streams
from orin_llm.bench.tables import ratio
from orin_llm.bench.turns import alternate
from orin_llm.bench.watch import INTERVAL_MS
from orin_llm.bench.workload import Workload
from orin_llm.device.board import read_board
from orin_llm.device.sampler import Sampler
from orin_llm.device.sources import Sensors, open_sensors
from orin_llm.engine import Engine, EngineConfig

FIGURES = {"ttft_ms": "TTFT", "tpot_ms": "TPOT"}


class Read:
    """Runs with a sampler that lives as long as the run."""

    def __init__(self, engine: Engine, sensors: Sensors, interval_ms: float) -> None:
        self._engine = engine
        self._sensors = sensors
        self._interval_ms = interval_ms

    @property
    def settings(self) -> dict[str, object]:
        return {"name": "with readings"}

    def run(self, workload: Workload) -> Run:
        with Sampler(self._sensors, self._interval_ms) as sampler:
            return EngineRunner(self._engine, sampler).run(workload)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("-t", "--threads", type=int, default=0, help="0: the physical cores")
    parser.add_argument("-p", "--prompt", type=int, default=256)
    parser.add_argument("-n", "--gen", type=int, default=64)
    parser.add_argument("--interval", type=float, default=INTERVAL_MS, help="ms between readings")
    parser.add_argument("-r", "--repetitions", type=int, default=21)
    args = parser.parse_args(arguments)
    n_ctx = args.prompt + args.gen
    config = EngineConfig(n_ctx=n_ctx, threads=args.threads, max_batch=1)
    scenario = Streams(1, Lengths(args.prompt, args.prompt), Lengths(args.gen, args.gen))
    with (
        open_sensors(read_board(), args.interval) as sensors,
        Engine(args.model, config) as engine,
    ):
        contenders = (Read(engine, sensors, args.interval), EngineRunner(engine))
        workload = scenario.build(engine.n_vocab, seed=0)
        print(
            f"{scenario.label}, {engine.threads} threads, read every {args.interval:g} ms: "
            f"{', '.join(source.name for source in sensors.sources)}"
        )
        read, plain = alternate(
            contenders, workload, 1, args.repetitions, lambda text: print(text, file=sys.stderr)
        )
    for name, text in FIGURES.items():
        pairs = [figures(a)[name] / figures(b)[name] for a, b in zip(read, plain, strict=True)]
        print(f"{text} with readings over without: {ratio(paired(pairs))}")


if __name__ == "__main__":
    main()
