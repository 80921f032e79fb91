#!/usr/bin/env python3
"""Speed of our engine beside stock llama.cpp on the same machine, in one run, taking turns.

    scripts/bench_stock.py --model smollm2
    scripts/bench_stock.py --model 1b.gguf --repetitions 7 --json

Prints the median of each side and of the pairwise ratios (ours / stock, above 1 is faster).
Needs the [stock] extra. Prefill is a prompt with its first token; decode is the tokens after it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from statistics import median

from orin_llm.bench.stock import StockPeer
from orin_llm.engine import Engine, EngineConfig, Hooks, Request, SamplingParams
from orin_llm.errors import OrinError
from orin_llm.models.store import resolve


def time_ours(engine: Engine, prompt: list[int], n: int) -> tuple[float, float]:
    """Seconds for the prompt with its first token, and for the n - 1 tokens after it."""
    engine.forget()
    request = Request(prompt, SamplingParams(temperature=0), max_tokens=n)
    started = time.perf_counter()
    completion = engine.complete(request)
    next(completion)
    first = time.perf_counter()
    for _ in completion:
        pass
    return first - started, time.perf_counter() - first


def compare(options: argparse.Namespace) -> dict[str, object]:
    config = EngineConfig(
        n_ctx=options.prompt_tokens + options.decode_tokens + 16,
        chunk_size=options.chunk_size,
        threads=options.threads,
        hooks=Hooks.parse(options.hooks),
    )
    path = resolve(options.model)
    with Engine(path, config) as engine:
        text = "The quick brown fox jumps over the lazy dog. " * options.prompt_tokens
        prompt = engine.tokenize(text)[: options.prompt_tokens]
        n = until_end_of_text(engine, prompt, options.decode_tokens)
        with StockPeer(
            path, n_ctx=engine.n_ctx, chunk_size=config.chunk_size, threads=engine.threads
        ) as peer:
            ours: list[tuple[float, float]] = []
            stock: list[tuple[float, float]] = []
            for repetition in range(options.repetitions + 1):
                a, b = time_ours(engine, prompt, n), peer.time(prompt, n)
                if repetition > 0:  # the first pair warms both up
                    ours.append(a)
                    stock.append(b)
                print(f"pair {repetition}/{options.repetitions}", file=sys.stderr)
        return {
            "model": options.model,
            "threads": engine.threads,
            "hooks": engine.backend["hooks"],
            "prompt_tokens": len(prompt),
            "decode_tokens": n,
            "repetitions": options.repetitions,
            "prefill": figures([x[0] for x in ours], [x[0] for x in stock], len(prompt)),
            "decode": figures([x[1] for x in ours], [x[1] for x in stock], n - 1),
        }


def until_end_of_text(engine: Engine, prompt: list[int], n: int) -> int:
    """How many tokens the engine writes before it would end by itself."""
    completion = engine.complete(Request(prompt, SamplingParams(temperature=0), max_tokens=n))
    for _ in completion:
        pass
    return completion.result.completion_tokens


def figures(ours: list[float], stock: list[float], tokens: int) -> dict[str, float]:
    ratios = [b / a for a, b in zip(ours, stock, strict=True)]
    return {
        "ours_tokens_per_s": tokens / median(ours),
        "stock_tokens_per_s": tokens / median(stock),
        "ratio": median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="smollm2", help="name or path")
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--decode-tokens", type=int, default=64)
    parser.add_argument("--chunk-size", type=int, default=512)
    parser.add_argument("--threads", type=int, default=0, help="0: the cores there are")
    parser.add_argument("--repetitions", type=int, default=7, help="pairs counted, after one more")
    parser.add_argument("--hooks", default="all", help="all, none, or -NAME,…")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    try:
        report = compare(options)
    except OrinError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    if options.json:
        print(json.dumps(report))
        return 0
    print(f"{report['model']}, {report['threads']} threads, hooks {report['hooks']}")
    for phase in ("prefill", "decode"):
        row = report[phase]
        assert isinstance(row, dict)
        print(
            f"{phase:8} ours {row['ours_tokens_per_s']:8.1f} tok/s   "
            f"stock {row['stock_tokens_per_s']:8.1f} tok/s   "
            f"ratio {row['ratio']:.3f} ({row['ratio_min']:.3f} … {row['ratio_max']:.3f})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
