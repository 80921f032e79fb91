#!/usr/bin/env python3
"""Speed and error of paged attention beside llama.cpp's flash attention, in one run, taking turns.

    scripts/bench_attention.py
    scripts/bench_attention.py --types f16 --threads 4 --depths 1024 --chunk 0 --json

Both run as nodes of a llama.cpp graph. Prints the median of each side in microseconds, that of
the pairwise speedups (llama.cpp's time / ours, above 1 is faster) and the speedup of the fastest
runs, which says more on a busy machine. With --errors: the root mean square of the errors against
float64 in place of the times.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from attention_float64 import KV_TYPES, Attention, encode

from orin_llm.gguf.kv_types import KvTypes

PAGE_SIZE = 16
WORK = 30_000  # cells that a graph of several nodes attends to, so that its start does not count


@dataclass(frozen=True)
class Heads:
    n_head: int
    n_head_kv: int
    head_dim: int


MODELS = {"llama-8b": Heads(32, 8, 128), "smollm2-135m": Heads(9, 3, 64)}


@dataclass(frozen=True)
class Case:
    """`n_tokens` query tokens behind `depth` positions of one sequence."""

    model: str
    kv_type: str
    depth: int
    n_tokens: int

    def step(self) -> Attention:
        heads = MODELS[self.model]
        types = KvTypes.parse(self.kv_type)
        rng = np.random.default_rng(1)
        n_pages = -(-(self.depth + self.n_tokens) // PAGE_SIZE)
        cells = (n_pages * PAGE_SIZE, heads.n_head_kv * heads.head_dim)
        shape = (self.n_tokens, heads.n_head, heads.head_dim)
        return Attention(
            q=rng.standard_normal(shape, np.float32),
            k=encode(rng.standard_normal(cells, np.float32), types.k.name),
            v=encode(rng.standard_normal(cells, np.float32), types.v.name),
            n_head_kv=heads.n_head_kv,
            head_dim_v=heads.head_dim,
            page_size=PAGE_SIZE,
            block_tables=np.arange(n_pages, dtype=np.int32)[None],  # as llama.cpp has it
            rows=np.zeros(self.n_tokens, np.int32),
            positions=np.arange(self.depth, self.depth + self.n_tokens, dtype=np.int32),
            scale=heads.head_dim**-0.5,
            k_type=types.k.name,
            v_type=types.v.name,
        )


def speeds(case: Case, n_threads: int, repetitions: int) -> dict[str, float]:
    probe = case.step().probe(n_threads)
    n_nodes = max(1, min(200, WORK // ((case.depth + case.n_tokens) * case.n_tokens)))
    pairs = [
        [probe.time(stock=stock, n_threads=n_threads, n_nodes=n_nodes) for stock in (False, True)]
        for _ in range(repetitions + 1)
    ][1:]  # the first pair warms both up
    return {
        "ours_us": median(ours for ours, _ in pairs) * 1e6,
        "llama_us": median(theirs for _, theirs in pairs) * 1e6,
        "speedup": median(theirs / ours for ours, theirs in pairs),
        "best_speedup": min(theirs for _, theirs in pairs) / min(ours for ours, _ in pairs),
    }


def errors(case: Case, n_threads: int) -> dict[str, float]:
    step = case.step()
    probe, exact = step.probe(n_threads), step.exact()
    ours = float(np.sqrt(np.square(probe.run(n_threads) - exact).mean()))
    theirs = float(np.sqrt(np.square(probe.run_stock(n_threads) - exact).mean()))
    return {"ours_error": ours, "llama_error": theirs, "error_ratio": ours / theirs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--types", nargs="+", default=list(KV_TYPES), help="also as K:V")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--depths", type=int, nargs="*", default=[128, 1024, 4096, 16384])
    parser.add_argument("--chunk-depths", type=int, nargs="*", default=[0, 4096])
    parser.add_argument("--chunk", type=int, default=512, help="tokens of a prefill chunk")
    parser.add_argument("--repetitions", type=int, default=11, help="pairs counted")
    parser.add_argument("--errors", action="store_true", help="errors in place of times")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    shapes = [(depth, 1) for depth in options.depths]
    shapes += [(depth, options.chunk) for depth in options.chunk_depths]
    report = []
    for n_threads in options.threads:
        for model in options.models:
            for kv_type in options.types:
                for depth, n_tokens in shapes:
                    case = Case(model, kv_type, depth, n_tokens)
                    # A chunk takes as long as hundreds of decode tokens, and varies less.
                    repetitions = max(3, options.repetitions // (1 if n_tokens == 1 else 3))
                    measured = (
                        errors(case, n_threads)
                        if options.errors
                        else speeds(case, n_threads, repetitions)
                    )
                    report.append(asdict(case) | {"threads": n_threads} | measured)
                    if not options.json:
                        show(report[-1])
    if options.json:
        print(json.dumps(report))
    return 0


def show(line: dict[str, object]) -> None:
    where = "{model:13} {kv_type:9} depth {depth:5} tokens {n_tokens:3} threads {threads}".format(
        **line
    )
    if "speedup" in line:
        what = "ours {ours_us:10.1f} µs  llama.cpp {llama_us:10.1f} µs  speedup {speedup:.2f}"
        what += " (of the fastest {best_speedup:.2f})"
    else:
        what = "ours {ours_error:.2e}  llama.cpp {llama_error:.2e}  ratio {error_ratio:.4f}"
    print(where + "  " + what.format(**line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
