"""Runs, outcomes and checks as the tests of acceptance make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench_support import request, step

from orin_llm.accept.figures import Figures
from orin_llm.accept.indicators import INDICATORS
from orin_llm.accept.outcome import Outcome, judge
from orin_llm.accept.result import Acceptance
from orin_llm.accept.thresholds import Limit
from orin_llm.bench.records import KvUse, Run
from orin_llm.device.reading import Reading
from orin_llm.engine import Completion, Engine, EngineConfig, Request
from orin_llm.models.reporter import Progress, Reporter

Fault = Callable[["Neighbours", Request], Completion]

# What a board might have told, all within the limits that ship for an AGX Orin.
GOOD = {
    "ttft_std_ms": 3.5,
    "tpot_growth_ms": 1.25,
    "prefill_gpu_percent": 97.0,
    "memory_percent": 41.0,
    "hit_rate_percent": 99.43,
    "rope_out_of_bounds": 0.0,
    "ppl_ratio": 1.02,
    "requests_per_s": 25.0,
}
LIMITS = {
    "ttft_std_ms": 15.0,
    "tpot_growth_ms": 5.0,
    "prefill_gpu_percent": 85.0,
    "memory_percent": 90.0,
    "hit_rate_percent": 99.2,
    "rope_out_of_bounds": 0.0,
    "ppl_ratio": 1.2,
    "requests_per_s": 22.0,
}
STAMP = {
    "kind": "jetson", "board": "a <board> & more", "module": "p3701-0005", "l4t": "36.4.3",
    "jetpack": "6.2", "power_mode": "MAXN", "gpu_units": 8, "gpu_cap_mhz": 1300.5,
    "emc_cap_mhz": 3199.0, "clocks_pinned": True, "gpu": None, "cpu": "Cortex", "cores": 12,
}  # fmt: skip
ENVIRONMENT = {
    "version": "0.1.0", "commit": None, "llama_cpp": "llama.cpp", "upstream_commit": "0",
    "model": {"name": "m", "quant": "Q4_K_M", "parameters": 8_030_000_000, "bytes": 1},
    "machine": {"device": "Orin", "cpu": "Cortex", "architecture": "aarch64", "cores": 12},
    "stamp": STAMP,
}  # fmt: skip


def outcomes(
    values: Mapping[str, float | None],
    limits: Mapping[str, float] = LIMITS,
    reason: str = "no sensor",
) -> tuple[Outcome, ...]:
    """An outcome of each indicator; a value of None could not be measured."""
    found = Figures(
        {name: value for name, value in values.items() if value is not None},
        {"readings": 12.0},
        {name: reason for name, value in values.items() if value is None},
    )
    held = {name: Limit(value, "a test") for name, value in limits.items()}
    return tuple(
        Outcome(
            one, "a shape", {"requests": 3}, judge(one, found, held, "no limit"), found.beside, 5.0
        )
        for one in INDICATORS
    )


def acceptance(
    values: Mapping[str, float | None] = GOOD,
    limits: Mapping[str, float] = LIMITS,
    *,
    reason: str = "no sensor",
    allow_unmeasured: bool = False,
) -> Acceptance:
    return Acceptance(ENVIRONMENT, {}, outcomes(values, limits, reason), allow_unmeasured)


def run_of(
    *token_ms: Sequence[float], kv: tuple[int, int] | None = None, readings: Sequence[Reading] = ()
) -> Run:
    """A run with a request for each row of times, submitted at 0, and a step of prefill."""
    use = None if kv is None else KvUse(1, 1, *kv)
    steps = (step(1, 0, 1000, prompt=100, decode=0), step(2, 1000, 1000))
    return Run(tuple(request(times) for times in token_ms), steps, use, tuple(readings))


def limits_file(folder: Path, text: str) -> Path:
    path = folder / "limits.toml"
    path.write_text(text)
    return path


class Neighbours(Reporter):
    """Makes an engine that others use, too, once the warm-up is over, as `fault` says.

    The fault takes each request that is measured in the place of the engine.
    """

    def __init__(self, fault: Fault | None) -> None:
        self.n_requests = 0
        self._fault = fault
        self._measuring = False
        self._others: list[Completion] = []

    def progress(self, progress: Progress) -> None:
        self._measuring = True

    def load(self, path: Path, config: EngineConfig) -> Engine:
        engine = Engine(path, config)
        self.ask = engine.complete
        engine.complete = self._complete  # type: ignore[method-assign]
        return engine

    def come(self, n: int, prompt: list[int], max_tokens: int = 1) -> None:
        """Others' requests, which nobody waits for. Each begins with a token of its own."""
        for _ in range(n):
            tokens = [2000 + len(self._others), *prompt[1:]]
            request = Request(tokens, max_tokens=max_tokens, ignore_eos=True)
            self._others.append(self.ask(request))

    def _complete(self, request: Request) -> Completion:
        if self._fault is None or not self._measuring:
            return self.ask(request)
        self.n_requests += 1
        return self._fault(self, request)
