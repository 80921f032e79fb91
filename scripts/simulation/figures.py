"""The figures of a run, as serving benchmarks define them."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from .simulator import Run


@dataclass(frozen=True)
class Figures:
    """Figures of one trace under one policy.

    Attributes:
        ttft_ms_mean, ttft_ms_p50, …: arrival to first token, of requests that had one.
        tpot_ms_p50, tpot_ms_p95: (last token - first token) / (tokens - 1) of a request with more
            than one.
        itl_ms_p50, itl_ms_p99: every gap between two tokens of a request, pooled.
        e2el_ms_p50: arrival to last token, of requests that were not cancelled.
        output_tokens_per_s: from the first arrival to the last token.
        utilization: share of the steps' time in which the limiting resource (memory bandwidth or
            arithmetic) worked on what had to be computed: without overhead and recomputation.
        preempted: preemptions.
        finished: requests that had all their tokens.
    """

    trace: str
    policy: str
    ttft_ms_mean: float
    ttft_ms_p50: float
    ttft_ms_p95: float
    ttft_ms_p99: float
    tpot_ms_p50: float
    tpot_ms_p95: float
    itl_ms_p50: float
    itl_ms_p99: float
    e2el_ms_p50: float
    output_tokens_per_s: float
    utilization: float
    preempted: int
    finished: int

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def ttfts_ms(run: Run) -> list[float]:
    return [s.token_ms[0] - s.request.arrival_ms for s in run.served if s.token_ms]


def tpots_ms(run: Run) -> list[float]:
    return [
        (s.token_ms[-1] - s.token_ms[0]) / (len(s.token_ms) - 1)
        for s in run.served
        if len(s.token_ms) > 1
    ]


def itls_ms(run: Run) -> list[float]:
    return [gap for s in run.served for gap in np.diff(s.token_ms).tolist()]


def figures(trace: str, policy: str, run: Run) -> Figures:
    ttft = np.percentile(ttfts_ms(run), [50, 95, 99])
    tpot = np.percentile(tpots_ms(run), [50, 95])
    itl = np.percentile(itls_ms(run), [50, 99])
    whole = [s for s in run.served if len(s.token_ms) == s.request.output_tokens]
    start_ms = min(s.request.arrival_ms for s in run.served)
    return Figures(
        trace=trace,
        policy=policy,
        ttft_ms_mean=float(np.mean(ttfts_ms(run))),
        ttft_ms_p50=float(ttft[0]),
        ttft_ms_p95=float(ttft[1]),
        ttft_ms_p99=float(ttft[2]),
        tpot_ms_p50=float(tpot[0]),
        tpot_ms_p95=float(tpot[1]),
        itl_ms_p50=float(itl[0]),
        itl_ms_p99=float(itl[1]),
        e2el_ms_p50=float(np.median([s.token_ms[-1] - s.request.arrival_ms for s in whole])),
        output_tokens_per_s=1e3
        * sum(len(s.token_ms) for s in run.served)
        / (run.end_ms - start_ms),
        utilization=run.useful_ms / run.busy_ms,
        preempted=run.counters["preempted"],
        finished=run.counters["finished"],
    )
