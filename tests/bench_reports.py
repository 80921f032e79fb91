"""Reports of benchmarks with times that are known, and comparisons of two."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from bench_support import UNSTAMPED, request

from orin_llm.bench.lengths import Lengths
from orin_llm.bench.records import Run
from orin_llm.bench.result import Conditions, Earlier, Report, Result
from orin_llm.bench.streams import Streams
from orin_llm.bench.versus import Versus

ENGINE: dict[str, object] = {"name": "orin-llm all", "threads": 2, "chunk_size": 512}
BEFORE = Path("before.json")


def result(scales: list[float], *, prompt: int = 100, **engine: object) -> Result:
    """A prompt in 500 ms, then a token every 10 ms; all of it `scale` times in each repetition."""
    runs = [Run((request([500 * s, 510 * s, 520 * s], prompt_tokens=prompt),)) for s in scales]
    scenario = Streams(1, Lengths(prompt, prompt), Lengths(3, 3))
    conditions = Conditions(scenario, chunk_size=512, warmup=1, seed=7)
    return conditions.result({**ENGINE, **engine}, runs, runs)


def report(*results: Result, **environment: object) -> Report[Result]:
    return Report({**UNSTAMPED, **environment}, results)


def versus(before: Report[Any], now: Report[Any], path: Path = BEFORE) -> Versus:
    found = set_against(before, now, path).versus
    assert found is not None
    return found


def set_against(before: Report[Any], now: Report[Any], path: Path = BEFORE) -> Report[Any]:
    return replace(now, earlier=Earlier(path, before))


SLOW = result([2.0, 2.02, 1.98])
FAST = result([1.0, 1.01, 0.99])
