"""Runs a trace through the real scheduler; only the time of a step is modelled."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from orin_llm._native import Scheduler, StepBatch

from .cost_model import CostModel, Work
from .traces import VOCABULARY, Trace, TraceRequest

PAGE_SIZE = 16
MAX_TOKENS = 65_536  # of one sequence


@dataclass
class Served:
    """What became of a request: when it arrived and when each of its tokens came."""

    request: TraceRequest
    token_ms: list[float] = field(default_factory=list)


@dataclass
class Run:
    """All that happened; times in milliseconds since the trace began."""

    served: list[Served]
    counters: dict[str, int]
    end_ms: float
    busy_ms: float = 0.0
    useful_ms: float = 0.0


def simulate(trace: Trace, cost: CostModel, **config: object) -> Run:
    """Runs all requests to their end. `config` goes to the scheduler."""
    settings: Mapping[str, object] = {
        "n_pages": trace.pages + 1,
        "page_size": PAGE_SIZE,
        "max_tokens": min(MAX_TOKENS, trace.pages * PAGE_SIZE),
        **config,
    }
    return _Simulation(trace, cost, Scheduler(**settings)).run()  # type: ignore[arg-type]


class _Simulation:
    def __init__(self, trace: Trace, cost: CostModel, scheduler: Scheduler) -> None:
        self._cost = cost
        self._scheduler = scheduler
        self._arrivals = sorted(trace.requests, key=lambda request: request.arrival_ms)[::-1]
        self._cancels: list[tuple[float, int]] = []
        self._served: dict[int, Served] = {}
        self._run = Run([], {}, 0.0)
        self._recomputed = 0

    def run(self) -> Run:
        now = 0.0
        while True:
            self._take_events(now)
            batch = self._scheduler.plan(now)
            rows = batch.rows
            if len(rows) > 0:
                now = self._compute(batch, rows, now)
                self._run.end_ms = now
            elif self._arrivals:
                now = self._arrivals[-1].arrival_ms
            else:
                break
        self._run.served = list(self._served.values())
        self._run.counters = self._scheduler.counters()
        return self._run

    def _take_events(self, now: float) -> None:
        while self._arrivals and self._arrivals[-1].arrival_ms <= now:
            request = self._arrivals.pop()
            number = self._scheduler.submit(
                request.prompt, max_tokens=request.output_tokens, now_ms=request.arrival_ms
            )
            self._served[number] = Served(request)
            if request.cancel_ms is not None:
                heapq.heappush(self._cancels, (request.arrival_ms + request.cancel_ms, number))
        while self._cancels and self._cancels[0][0] <= now:
            self._scheduler.cancel(heapq.heappop(self._cancels)[1])

    def _compute(self, batch: StepBatch, rows: np.ndarray, now: float) -> float:
        outputs = batch.outputs
        sampled = [(self._next_token(number), False) for _, number in outputs]
        self._scheduler.finish_step(sampled)
        recomputed = self._scheduler.counters()["tokens_recomputed"]
        work = _work(rows, recomputed - self._recomputed)
        self._recomputed = recomputed
        step_ms = self._cost.step_ms(work)
        self._run.busy_ms += step_ms
        self._run.useful_ms += self._cost.useful_ms(work)
        for _, number in outputs:
            self._served[number].token_ms.append(now + step_ms)
        return now + step_ms

    def _next_token(self, number: int) -> int:
        """Any text that no other request has, too."""
        return (number * 7919 + len(self._served[number].token_ms)) % VOCABULARY


def _work(rows: np.ndarray, recomputed: int) -> Work:
    lengths = rows["position"].astype(np.int64) + 1
    is_last_of_sequence = np.append(rows["sequence"][1:] != rows["sequence"][:-1], True)
    return Work(
        tokens=len(rows),
        recomputed=recomputed,
        kv_tokens=int(lengths[is_last_of_sequence].sum()),
        pairs=int(lengths.sum()),
    )
