#!/usr/bin/env python3
"""The step planner under load: the real scheduler, with a model of what a step takes on the board.

    scripts/simulate_scheduler.py
    scripts/simulate_scheduler.py --trace rag --policy balanced ttft --chunk 256
    scripts/simulate_scheduler.py --json --plot latency.png

Nothing is measured: the same seed gives the same figures on every machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from simulation.cost_model import CostModel
from simulation.figures import Figures, figures
from simulation.simulator import Run, simulate
from simulation.traces import TRACES

POLICIES = ("balanced", "ttft", "tpot")
COLUMNS = (
    *("TTFT\nmean", "\np50", "\np95", "\np99", "TPOT\np50", "\np95", "ITL\np50", "\np99"),
    *("out\ntok/s", "utili-\nzation", "pre-\nempted", "fini-\nshed"),
)


MAX_CHUNK = 8192  # as an engine takes it


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trace", nargs="+", choices=TRACES, default=list(TRACES))
    parser.add_argument("--policy", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--chunk", type=int, default=512, help="prompt tokens a step (512)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one object on stdout")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the distributions")
    options = parser.parse_args(arguments)
    if not 1 <= options.chunk <= MAX_CHUNK:
        parser.error(f"--chunk is {options.chunk}: expected 1 … {MAX_CHUNK}")
    if options.seed < 0:
        parser.error(f"--seed is {options.seed}: expected 0 or more")
    if options.plot is not None and not options.plot.absolute().parent.is_dir():
        parser.error(f"--plot: there is no directory {options.plot.parent}")
    return options


def show(results: list[Figures]) -> None:
    table = Table(caption="Times in ms. A model of an 8B Q4_K_M on the AGX Orin, not a measurement")
    table.add_column("trace")
    table.add_column("policy")
    for name in COLUMNS:
        table.add_column(name, justify="right")
    for i, row in enumerate(results):
        if i > 0 and results[i - 1].trace != row.trace:
            table.add_section()
        times = (
            *(row.ttft_ms_mean, row.ttft_ms_p50, row.ttft_ms_p95, row.ttft_ms_p99),
            *(row.tpot_ms_p50, row.tpot_ms_p95, row.itl_ms_p50, row.itl_ms_p99),
        )
        table.add_row(
            row.trace,
            row.policy,
            *(f"{ms:.0f}" for ms in times),
            f"{row.output_tokens_per_s:.1f}",
            f"{row.utilization:.1%}",
            str(row.preempted),
            str(row.finished),
        )
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    runs: dict[tuple[str, str], Run] = {}
    for name in options.trace:
        trace = TRACES[name](options.seed)
        for policy in options.policy:
            print(f"{name}, {policy}", file=sys.stderr)
            runs[name, policy] = simulate(
                trace, CostModel(), policy=policy, chunk_size=options.chunk
            )
    results = [figures(name, policy, run) for (name, policy), run in runs.items()]
    if options.json:
        rows = [row.as_dict() for row in results]
        print(json.dumps({"seed": options.seed, "chunk_size": options.chunk, "results": rows}))
    else:
        show(results)
    if options.plot:
        from simulation.plot import plot

        plot(runs, options.plot)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
