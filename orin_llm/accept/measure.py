"""Measures what an engine can tell: all indicators but perplexity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from orin_llm.accept import figures, workloads
from orin_llm.accept.figures import Figures
from orin_llm.accept.shapes import Shapes
from orin_llm.bench.records import Run
from orin_llm.bench.runner import EngineRunner
from orin_llm.bench.workload import Prompts, Workload
from orin_llm.device.sampler import Sampler
from orin_llm.engine import Engine

SEED = 0  # of prompts
WARM_UP_REQUESTS = 2  # of the TTFT shape, after one batch

Raw = dict[str, Any]  # plain values, as they are measured
OnRun = Callable[[int, int], None]  # runs that are done, of how many


@dataclass(frozen=True)
class Bench:
    """An engine, and the sensors of its machine.

    Attributes:
        no_gpu: why there may be no load of a GPU.
    """

    engine: Engine
    sampler: Sampler
    shapes: Shapes
    no_gpu: str

    def warm_up(self) -> None:
        """So that graphs are captured and memory is there; counts nowhere but for RoPE."""
        prompts, shapes = self._prompts(), self.shapes
        batch = shapes.throughput
        first = workloads.at_once(prompts, batch.batch, batch.prompt_tokens, batch.max_tokens)
        single = partial(
            workloads.at_once, prompts, 1, shapes.ttft.prompt_tokens, shapes.ttft.max_tokens
        )
        for workload in (first, *(single() for _ in range(WARM_UP_REQUESTS))):
            self._runner.run(workload)

    def measure(self, name: str, on_run: OnRun, raw: Raw) -> Figures:
        """The figures of an indicator; what they are from goes into `raw` as it is there.

        Raises:
            OrinError: a request failed.
        """
        runs: list[Run] = []
        told = raw["runs"] = []
        todo = self._workloads(name)
        on_run(0, len(todo))
        for workload in todo:
            run = self._runner.run(workload)
            told.append(run_json(run))
            runs.append(run)
            if name != "rope":
                run.require_all_completed()
            on_run(len(runs), len(todo))
        return self._rope(runs, raw) if name == "rope" else self._figures(name, runs)

    def _rope(self, runs: Sequence[Run], raw: Raw) -> Figures:
        """Look-ups out of bounds come before a request that failed: on a GPU they are why."""
        counters, gpu = self.engine.runner.rope_counters(), self.engine.runner.rope_store_report()
        raw |= {"counters": counters, "gpu": dict(gpu)}
        found = figures.rope(counters, gpu["n_layers"], self._no_table())
        if not found.values.get("rope_out_of_bounds"):
            for run in runs:
                run.require_all_completed()
        return found

    def _workloads(self, name: str) -> list[Workload]:
        prompts, shapes = self._prompts(), self.shapes
        make: dict[str, Callable[[], list[Workload]]] = {
            "ttft": lambda: workloads.one_by_one(prompts, shapes.ttft),
            "growth": lambda: workloads.one_by_one(prompts, shapes.growth),
            "load": lambda: workloads.rounds(prompts, shapes.load),
            "pages": lambda: workloads.streams(prompts, shapes.pages),
            "throughput": lambda: workloads.batches(prompts, shapes.throughput),
            "rope": lambda: workloads.whole_context(
                prompts, self.engine.n_ctx, shapes.rope.max_tokens
            ),
        }
        return make[name]()

    def _figures(self, name: str, runs: Sequence[Run]) -> Figures:
        make: dict[str, Callable[[], Figures]] = {
            "ttft": lambda: figures.ttft(runs),
            "growth": lambda: figures.growth(runs, self.shapes.growth.compared_tokens),
            "load": lambda: figures.load(runs, self.sampler.max_gap_ms, self.no_gpu),
            "pages": lambda: figures.pages(runs, self._not_paged()),
            "throughput": lambda: figures.throughput(runs[0]),
        }
        return make[name]()

    @property
    def _runner(self) -> EngineRunner:
        return EngineRunner(self.engine, self.sampler)

    def _prompts(self) -> Prompts:
        return Prompts(self.engine.n_vocab, SEED)

    def _not_paged(self) -> str:
        refusal = self.engine.runner.refusal or "pages are off (--hooks)"
        return f"the KV cache is not paged: {refusal}"

    def _no_table(self) -> str:
        if self.engine.backend["hooks"]["rope"] == "off":
            return "RoPE reads no table, for its hook is off (--hooks)"
        return "no RoPE of this model reads a table on this device (docs/hooks.md)"


def run_json(run: Run) -> dict[str, Any]:
    """All of a run, as plain values."""
    return {
        "requests": [asdict(request) for request in run.requests],
        "steps": [asdict(step) for step in run.steps],
        "kv": asdict(run.kv) if run.kv else None,
        "readings": [reading.to_json() for reading in run.readings],
    }
