"""The knee of a sweep: against systems whose knee is known, and against a search by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from bench_support import request, run_of
from hypothesis import given
from hypothesis import strategies as st
from test_bench_report import ENVIRONMENT

from orin_llm.bench.knee import LoadPoint, find_knee, sweeps
from orin_llm.bench.lengths import Lengths
from orin_llm.bench.report import FORMATS
from orin_llm.bench.result import Conditions, Report, Result
from orin_llm.bench.streams import Streams

LOADS = range(1, 65)


def batching(fixed_ms: float, each_ms: float, loads: range = LOADS) -> list[LoadPoint]:
    """Decode whose step takes `fixed_ms` (the weights) and `each_ms` more for each stream."""
    steps = [(n, fixed_ms + n * each_ms) for n in loads]
    return [LoadPoint(n, 1000 * n / step_ms, 100 * step_ms) for n, step_ms in steps]


def test_where_a_step_has_become_twice_as_long_is_the_knee() -> None:
    """n / (a + n b)² is greatest at n = a / b."""
    knee = find_knee(batching(20, 2))
    assert knee is not None and knee.passed
    assert knee.point == LoadPoint(10, 250, 4000)


def test_slots_that_are_full_are_the_knee() -> None:
    """Eight slots without mutual cost; behind them throughput stays, and latency grows."""
    points = [LoadPoint(n, 50 * min(n, 8), 100 * max(1, n / 8)) for n in LOADS]
    knee = find_knee(points)
    assert knee is not None and (knee.point.load, knee.passed) == (8, True)


def test_the_knee_of_an_open_queue_is_at_half_its_capacity() -> None:
    """M/M/1 with 10 served a second: rate / (1 / (10 - rate)) is greatest at 5."""
    points = [LoadPoint(r, 32 * r, 1000 / (10 - r)) for r in np.arange(0.5, 9.6, 0.5)]
    knee = find_knee(points)
    assert knee is not None and knee.point.load == 5


def test_where_throughput_pays_to_the_end_the_knee_is_not_passed() -> None:
    knee = find_knee(batching(1000, 1))
    assert knee is not None and (knee.point.load, knee.passed) == (64, False)


@pytest.mark.parametrize(
    "points",
    [
        [],
        batching(20, 2)[:2],
        [LoadPoint(1, 5, 5)] * 5,
        [*batching(20, 2)[:3], LoadPoint(9, 0, 1)],
        [*batching(20, 2)[:3], LoadPoint(9, 1, 0)],
    ],
)
def test_too_few_loads_and_impossible_figures_have_no_knee(points: list[LoadPoint]) -> None:
    assert find_knee(points) is None


positive = st.floats(0.01, 1e6)


@given(st.lists(st.builds(LoadPoint, positive, positive, positive), max_size=20), st.randoms())
def test_no_other_load_gives_more_for_its_latency(points: list[LoadPoint], random: object) -> None:
    knee = find_knee(points)
    if knee is None:
        assert len({point.load for point in points}) < 3
        return
    power = [point.throughput_per_s / point.latency_ms for point in points]
    assert knee.point.throughput_per_s / knee.point.latency_ms == max(power)
    assert knee == find_knee(list(reversed(points)))
    assert knee.passed == any(point.load > knee.point.load for point in points)


OURS: dict[str, object] = {"name": "orin-llm all", "threads": 2}


def result(
    streams: int, step_ms: float, engine: dict[str, object] = OURS, allows: int | None = 7
) -> Result:
    """`streams` answers of five tokens, one a step."""
    tokens = [step_ms * n for n in range(1, 6)]
    run = run_of(*(request(tokens) for _ in range(streams)))
    scenario = Streams(streams, Lengths(10, 10), Lengths(5, 5))
    return Conditions(scenario, 512, 0, 0, allows).result(engine, [run], [run])


def test_results_that_differ_in_their_streams_alone_are_a_sweep() -> None:
    results = [result(n, 20 + 5 * n) for n in (8, 1, 2, 4)]
    (sweep,) = sweeps(results)
    assert [point.load for point in sweep.points] == [1, 2, 4, 8]
    assert [point.latency_ms for point in sweep.points] == [125, 150, 200, 300]
    assert [point.throughput_per_s for point in sweep.points] == pytest.approx(
        [1000 * n / (20 + 5 * n) for n in (1, 2, 4, 8)]
    )
    assert sweep.knee is not None and sweep.knee.point.load == 4
    assert sweep.text == "the knee is at 4 requests at once; memory allows 7 requests at once"
    assert sweep.label == "prompt_tokens 10, max_tokens 5"
    said = json.loads(json.dumps(sweep.to_json()))
    assert said["knee"]["point"]["load"] == 4 and said["memory_allows"] == 7


def test_each_engine_has_a_sweep_of_its_own_and_two_loads_are_none() -> None:
    other = {**OURS, "name": "stock"}
    results = [
        *(result(n, 20 + n, engine, None) for n in (1, 2, 3) for engine in (OURS, other)),
        *(replace(result(n, 9), engine={"name": "two"}) for n in (1, 2)),
    ]
    found = sweeps(results)
    assert [sweep.engine for sweep in found] == ["orin-llm all", "stock"]
    assert all(
        sweep.text == "no knee up to 3 requests at once: throughput still pays there"
        for sweep in found
    )
    assert sweeps([]) == []


def test_a_load_at_which_requests_failed_is_no_point_and_is_named() -> None:
    """A server that turns requests away is quick with the others."""
    good = [result(n, 20 + 5 * n) for n in (1, 2, 4, 8)]
    none = replace(result(64, 10), figures={}, latency={}, failed=64)
    some = replace(result(16, 1), failed=1)
    (sweep,) = sweeps([*good, none, some])
    assert [point.load for point in sweep.points] == [1, 2, 4, 8]
    assert sweep.failed_loads == (16, 64)
    assert sweep.text == (
        "the knee is at 4 requests at once (left out, for requests failed: 16, 64); "
        "memory allows 7 requests at once"
    )
    (sweep,) = sweeps([good[0], none, some])
    assert sweep.text.startswith("no knee can be told (left out")


def test_markdown_and_json_tell_the_knee_of_a_sweep_and_nothing_of_single_loads() -> None:
    report = Report(ENVIRONMENT, tuple(result(n, 20 + 5 * n) for n in (1, 2, 4, 8)))
    text = "orin-llm all, prompt_tokens 10, max_tokens 5: the knee is at 4 requests at once; "
    assert text in FORMATS["md"](report)
    (found,) = json.loads(FORMATS["json"](report))["sweeps"]
    assert (found["load_name"], found["knee"]["point"]["load"]) == ("streams", 4)
    single = Report(ENVIRONMENT, report.results[:2])
    assert "knee" not in FORMATS["md"](single)
    assert "sweeps" not in json.loads(FORMATS["json"](single))
