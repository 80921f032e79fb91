"""What a trace comes to, against records that are known, and what tracing costs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from bench_support import MiB, failed, request, run_of, step

from orin_llm.bench.records import Run
from orin_llm.device.reading import Reading
from orin_llm.trace.cost import cost_of
from orin_llm.trace.figures import figures


def test_phases_are_the_sums_of_their_steps() -> None:
    steps = [
        replace(step(1, 0, 100, prompt=30, decode=0), kv_lookups=2, kv_misses=2),
        replace(step(2, 100, 60, prompt=8, decode=1), kv_lookups=4, kv_misses=1, preemptions=1),
        replace(step(3, 160, 20), kv_lookups=4, kv_evictions=3),
        replace(step(4, 180, 40), kv_lookups=5, kv_misses=1),
    ]
    requests = [request([100.0, 220.0]), request([160.0], submitted_ms=20.0), failed()]
    found = figures(run_of(*requests, steps=steps), 1000)
    prefill, decode = found.prefill, found.decode
    assert (prefill.steps, prefill.prompt_tokens, prefill.decode_tokens) == (2, 38, 1)
    assert (decode.steps, decode.prompt_tokens, decode.decode_tokens) == (2, 0, 2)
    assert (prefill.duration_ms, decode.duration_ms) == (160, 60)
    assert (prefill.longest_step_ms, decode.longest_step_ms) == (100, 40)
    assert prefill.compute_ms == pytest.approx(128) and prefill.sampling_ms == pytest.approx(16)
    assert decode.host_ms == pytest.approx(6)
    assert (decode.kv_bytes_after, prefill.kv_bytes_peak) == (4 * MiB, 2 * MiB)
    assert found.pages is not None
    assert (found.pages.lookups, found.pages.misses) == (15, 4)
    assert (found.pages.evictions, found.pages.preemptions) == (3, 1)
    assert found.pages.hit_rate == pytest.approx(11 / 15)
    assert (found.wall_ms, found.requests, found.failed) == (220, 3, 1)
    assert (found.ttft_ms, found.tpot_ms) == (120, 120)


def test_gaps_are_what_the_steps_leave() -> None:
    steps = [step(1, 0, 100, prompt=30), step(2, 130, 100)]  # 10 of 100 ms are before computation
    found = figures(run_of(request([100.0, 230.0]), steps=steps), 1000)
    assert found.gaps_ms == pytest.approx({"plan and upload": 20, "between steps": 30})
    assert found.longest_gap is not None and found.longest_gap.number == 2


def test_nothing_measured_is_none_and_never_zero() -> None:
    found = figures(run_of(steps=[replace(step(1, 0, 9), kv_bytes_committed=0)]), 1000)
    assert found.pages is None and found.ttft_ms is None and found.tpot_ms is None
    assert found.prefill.longest_step_ms is None and found.decode.kv_bytes_after is None
    assert found.decode.activity.power_w is None
    assert figures(run_of(), 1000).to_json()["longest_gap"] is None


def test_power_is_that_of_the_phase() -> None:
    readings = tuple(Reading(10.0 * i, power_w=40.0 if i <= 10 else 20.0) for i in range(21))
    steps = (step(1, 0, 100, prompt=30), step(2, 110, 90))
    found = figures(Run((request([100.0, 200.0]),), steps, None, readings), 1000)
    assert found.prefill.activity.power_w == pytest.approx(40)
    assert found.decode.activity.power_w == pytest.approx(20)


def test_cost_is_the_geometric_mean_of_pairs() -> None:
    def run_in(ms: float, tokens: int = 3) -> Run:
        return run_of(request([ms * n for n in range(1, tokens + 1)]))

    cost = cost_of([run_in(10), run_in(22)], [run_in(10), run_in(20)])
    for ratio in (cost.wall, cost.ttft, cost.tpot):
        assert ratio is not None and ratio.mean == pytest.approx(math.sqrt(1.1))
    assert cost_of([run_in(10, 1)], [run_in(10, 1)]).tpot is None
