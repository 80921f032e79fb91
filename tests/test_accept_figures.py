"""The figures that are judged, beside the same in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from accept_support import run_of
from bench_support import failed, request
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.accept import figures
from orin_llm.bench.records import Run
from orin_llm.device.reading import Reading
from orin_llm.errors import OrinError
from orin_llm.quality.comparison import Comparison

TIMES = st.lists(st.floats(0.01, 1e4), min_size=2, max_size=40)


@given(TIMES)
def test_ttft_deviates_as_numpy_says_of_a_sample(values: list[float]) -> None:
    found = figures.ttft([run_of([value]) for value in values])
    assert found.values["ttft_std_ms"] == pytest.approx(np.std(values, ddof=1), abs=1e-9)
    assert found.beside["ttft_mean_ms"] == pytest.approx(np.mean(values))
    assert (found.beside["ttft_min_ms"], found.beside["ttft_max_ms"]) == (min(values), max(values))


@given(
    st.lists(st.lists(st.floats(0.01, 100), min_size=15, max_size=15), min_size=1, max_size=5),
    st.integers(2, 8),
)
def test_growth_is_the_tpot_of_the_last_tokens_less_that_of_the_first(
    gaps: list[list[float]], compared: int
) -> None:
    times = np.cumsum(np.array(gaps), axis=1)  # [requests, tokens]
    found = figures.growth([run_of(*times.tolist())], compared)
    intervals = np.diff(times, axis=1)
    late, early = intervals[:, -(compared - 1) :].mean(), intervals[:, : compared - 1].mean()
    assert found.values["tpot_growth_ms"] == pytest.approx(late - early, abs=1e-6)
    assert found.beside["tpot_whole_ms"] == pytest.approx(intervals.mean())


def test_growth_of_a_slope_is_found_where_the_mean_of_whole_answers_hides_half_of_it() -> None:
    slope = 0.02  # ms a token: 9.6 ms after 480 tokens
    times = np.concatenate([[50.0], 50.0 + np.cumsum(20 + slope * np.arange(511))])
    found = figures.growth([run_of(times.tolist())], 32)
    assert found.values["tpot_growth_ms"] == pytest.approx(slope * 480)
    hidden = found.beside["tpot_whole_ms"] - found.beside["tpot_first_ms"]
    assert hidden == pytest.approx(slope * 480 / 2)


def reading(at_ms: float, gpu: float | None = None, **more: int | None) -> Reading:
    return Reading(at_ms, gpu_percent=gpu, **more)  # type: ignore[arg-type]


def test_the_gpus_load_is_that_of_prefill_alone() -> None:
    readings = [reading(0, 90), reading(999, 90), reading(1001, 10), reading(2000, 10)]
    found = figures.load([run_of([1000, 2000], readings=readings)], 1500, "no GPU")
    at, load = np.array([0, 999, 1001, 2000]), np.array([90, 90, 10, 10])
    grid = np.linspace(0, 1000, 100_001)
    expected = np.interp(grid, at, load).mean()
    assert found.values["prefill_gpu_percent"] == pytest.approx(expected, rel=1e-4)
    assert found.beside["decode_gpu_percent"] < 15


def test_the_fullest_moment_of_the_fuller_memory_counts() -> None:
    system = {"ram_used_bytes": 300, "ram_total_bytes": 1000}
    own = {"gpu_memory_used_bytes": 93, "gpu_memory_total_bytes": 100}
    readings = [reading(0, 90, **system), reading(500, 90, **own), reading(900, 90, **system)]
    found = figures.load([run_of([1000], readings=readings)], 1500, "no GPU")
    assert found.values["memory_percent"] == pytest.approx(93)


def test_a_share_of_a_common_memory_is_not_taken_for_a_gpus_own() -> None:
    shared = reading(0, 90, ram_used_bytes=300, ram_total_bytes=1000, gpu_memory_used_bytes=299)
    found = figures.load([run_of([1000], readings=[shared])], 1500, "no GPU")
    assert found.values["memory_percent"] == pytest.approx(30)


def test_what_no_sensor_tells_has_a_reason_and_no_value() -> None:
    readings = [reading(0), reading(900)]
    found = figures.load([run_of([1000], readings=readings)], 1500, "there is no GPU")
    assert found.values == {}
    assert found.unmeasured["prefill_gpu_percent"] == "there is no GPU"
    assert "no sensor" in found.unmeasured["memory_percent"]


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**6)), min_size=1, max_size=5))
def test_hits_are_what_was_there_of_all_pages_that_were_read(uses: list[tuple[int, int]]) -> None:
    uses = [(lookups, min(lookups, misses)) for lookups, misses in uses]
    found = figures.pages([run_of([1], kv=use) for use in uses], "not paged")
    lookups, misses = np.array(uses).sum(axis=0)
    assert found.values["hit_rate_percent"] == pytest.approx(100 * (lookups - misses) / lookups)


@pytest.mark.parametrize("kv", [None, (0, 0)])
def test_without_pages_that_were_read_there_is_no_hit_rate(kv: tuple[int, int] | None) -> None:
    found = figures.pages([run_of([1], kv=kv)], "stock memory")
    assert (found.values, found.unmeasured) == ({}, {"hit_rate_percent": "stock memory"})


@pytest.mark.parametrize(
    ("counters", "layers", "expected"),
    [
        ((100, 0, 0), 0, 0),
        ((100, 2, 0), 0, 2),  # llama.cpp computed rows that the table did not have
        ((100, 0, 3), 0, 3),
        ((0, 1, 0), 0, 1),
        ((0, 0, 0), 30, 0),  # a GPU's table
        ((0, 0, 5), 30, 5),
        ((0, 0, 0), 0, None),
    ],
)
def test_rows_outside_of_a_table_count_and_nothing_looked_up_is_no_pass(
    counters: tuple[int, int, int], layers: int, expected: int | None
) -> None:
    names = ("lookups", "fallbacks", "out_of_bounds")
    found = figures.rope(dict(zip(names, counters, strict=True)), layers, "no table")
    assert found.values.get("rope_out_of_bounds") == expected
    assert bool(found.unmeasured) == (expected is None)


@given(st.lists(st.tuples(st.floats(0, 12), st.floats(0, 12)), min_size=2, max_size=50))
def test_perplexities_are_compared_as_the_exponential_of_mean_losses(
    losses: list[tuple[float, float]],
) -> None:
    model, reference = np.array(losses).T
    flags = np.ones(len(losses), bool)
    found = figures.perplexity(Comparison(model, reference, model * 0, flags, model))
    expected = np.exp(model.mean()) / np.exp(reference.mean())
    assert found.values["ppl_ratio"] == pytest.approx(expected, rel=1e-9)
    assert found.beside["scored_tokens"] == len(losses)


def test_requests_a_second_are_over_the_time_from_the_first_to_the_last_end() -> None:
    requests = [
        request([50, 500 * (n + 1)], submitted_ms=10 * n, prompt_tokens=32) for n in range(8)
    ]
    found = figures.throughput(Run(tuple(requests)))
    assert found.values["requests_per_s"] == pytest.approx(8 / 4.0)


def test_a_run_with_a_failed_request_gives_no_figure() -> None:
    with pytest.raises(OrinError, match="a request failed: no pages"):
        Run((request([1]), failed("no pages"))).require_all_completed()
