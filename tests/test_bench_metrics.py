"""The benchmark's arithmetic: every figure is what its definition says."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from statistics import mean, median

import numpy as np
import pytest
from bench_support import MiB, failed, request, requests, run_of, step
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.bench.distribution import Distribution
from orin_llm.bench.metrics import (
    figures,
    kv_figures,
    latencies,
    peak_concurrency,
    speedups,
    spreads,
)
from orin_llm.bench.ratios import paired
from orin_llm.bench.records import KvUse, RequestRecord, Run
from orin_llm.errors import OrinError
from orin_llm.percentile import PERCENTS

some_requests = st.lists(requests(), min_size=1, max_size=8)


def test_the_times_of_a_request_are_those_of_its_definition() -> None:
    one = request([30, 40, 60], submitted_ms=10, finished_ms=65, cached_tokens=4)
    assert (one.ttft_ms, one.itl_ms, one.e2el_ms) == (20, (10, 20), 55)
    assert one.tpot_ms == (55 - 20) / 2
    assert one.computed_tokens == 6


def test_a_request_of_one_token_has_no_tpot_and_one_of_none_no_ttft() -> None:
    one, none = request([5]), request([], finished_ms=7)
    assert (one.ttft_ms, one.tpot_ms, one.itl_ms) == (5, None, ())
    assert (none.ttft_ms, none.tpot_ms, none.e2el_ms) == (None, None, 7)
    found = latencies([run_of(one, none)])
    assert found["tpot_ms"] is None
    assert found["ttft_ms"] is not None and found["ttft_ms"].count == 1


def test_tokens_that_a_server_tells_count_and_not_its_events() -> None:
    """Events of four tokens, a first one that is there at once."""
    one = request([10, 20, 30], told_tokens=12)
    assert (one.output_tokens, one.itl_ms) == (12, (10, 10))
    assert one.tpot_ms == pytest.approx(20 / 11)
    found = figures(run_of(one))
    assert found["output_tokens_per_s"] == pytest.approx(12 / 0.03)
    assert found["decode_tokens_per_s"] == pytest.approx(8 / 0.02)
    whole = request([10], told_tokens=12, finished_ms=14)  # all in one event
    assert (whole.tpot_ms, whole.output_tokens, whole.ttft_ms) == (None, 12, 10)


@given(some_requests)
def test_without_a_pause_at_the_end_tpot_is_the_mean_gap(records: list[RequestRecord]) -> None:
    for record in records:
        if record.output_tokens > 1:
            ended = replace(record, finished_ms=record.token_ms[-1])
            assert ended.tpot_ms == pytest.approx(mean(ended.itl_ms))


@given(st.lists(some_requests, min_size=1, max_size=3))
def test_latencies_pool_the_requests_of_all_repetitions(
    repetitions: list[list[RequestRecord]],
) -> None:
    records = [record for repetition in repetitions for record in repetition]
    found = latencies([run_of(*repetition) for repetition in repetitions])
    itl, ttft = found["itl_ms"], found["ttft_ms"]
    assert (itl.count if itl else 0) == sum(record.output_tokens - 1 for record in records)
    assert ttft is not None and ttft.count == len(records)
    times = [record.token_ms[0] - record.submitted_ms for record in records]
    assert ttft.mean == pytest.approx(mean(times))
    assert ttft.p50 == pytest.approx(median(times))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_percentiles_rise_and_lie_among_the_values(values: list[float]) -> None:
    found = Distribution.of(values)
    assert found is not None
    order = [min(values), found.p50, found.p90, found.p95, found.p99, max(values)]
    assert all(a <= b + 1e-6 for a, b in pairwise(order))


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=300))
def test_percentiles_mean_and_deviation_are_those_of_numpy(values: list[float]) -> None:
    found = Distribution.of(values)
    assert found is not None
    theirs = np.percentile(np.array(values, np.float64), PERCENTS)
    scale = max(map(abs, values))
    ours = [getattr(found, f"p{percent}") for percent in PERCENTS]
    assert ours == pytest.approx(theirs.tolist(), rel=1e-12, abs=1e-12 * scale)
    assert (found.mean, found.std) == (np.mean(values), np.std(values))


def test_percentiles_are_interpolated_linearly() -> None:
    found = Distribution.of(list(range(101)))
    assert found is not None
    assert (found.p50, found.p90, found.p95, found.p99) == (50, 90, 95, 99)
    two = Distribution.of([0.0, 10.0])
    assert two is not None and two.p90 == pytest.approx(9.0)
    assert Distribution.of([]) is None


def test_a_failed_request_is_in_no_figure() -> None:
    good = request([10, 20], prompt_tokens=5)
    bad = replace(request([1, 2, 3]), error="lost")
    assert figures(run_of(good, bad)) == figures(run_of(good))
    assert latencies([run_of(good, bad)]) == latencies([run_of(good)])
    assert figures(run_of(bad)) == {}


def test_rates_count_tokens_from_the_first_request_to_the_last_end() -> None:
    run = run_of(
        request([500, 1000, 1500], submitted_ms=0, finished_ms=2000, prompt_tokens=100),
        request([600, 700], submitted_ms=100, finished_ms=700, prompt_tokens=50),
    )
    found = figures(run)
    assert found["requests_per_s"] == 1
    assert found["output_tokens_per_s"] == 2.5
    assert found["total_tokens_per_s"] == 77.5
    assert found["ttft_ms"] == 500


def test_prefill_speed_counts_what_was_computed_until_the_last_first_token() -> None:
    run = run_of(
        request([400, 900], prompt_tokens=100, cached_tokens=60),
        request([800, 900], submitted_ms=10, prompt_tokens=120),
    )
    assert figures(run)["prefill_tokens_per_s"] == pytest.approx(160 / 0.8)


def test_requests_that_come_later_than_an_answer_have_no_prefill_speed() -> None:
    run = run_of(request([400, 900]), request([800, 900], submitted_ms=401))
    assert "prefill_tokens_per_s" not in figures(run)


def test_decode_speed_counts_tokens_while_all_requests_decode() -> None:
    run = run_of(request([10, 20, 30, 40, 50]), request([25, 35, 45, 55]))
    # From 25 to 50: tokens at 30, 35, 40, 45 and 50.
    assert figures(run)["decode_tokens_per_s"] == pytest.approx(5 / 0.025)


def test_requests_that_never_decode_together_have_no_decode_speed() -> None:
    assert "decode_tokens_per_s" not in figures(run_of(request([1, 2]), request([3, 4])))


@given(requests())
def test_alone_decode_speed_is_one_over_the_mean_gap(record: RequestRecord) -> None:
    found = figures(run_of(record))
    if record.output_tokens > 1:
        assert found["decode_tokens_per_s"] == pytest.approx(1e3 / mean(record.itl_ms))
    else:
        assert "decode_tokens_per_s" not in found


@given(some_requests)
def test_peak_concurrency_is_the_most_requests_at_one_begin(records: list[RequestRecord]) -> None:
    overlaps = [
        sum(other.submitted_ms <= one.submitted_ms < other.finished_ms for other in records)
        for one in records
    ]
    assert peak_concurrency(records) == max(overlaps)


def test_a_request_that_begins_when_another_ends_does_not_overlap_it() -> None:
    assert peak_concurrency([request([5]), request([9], submitted_ms=5)]) == 1
    assert peak_concurrency([]) == 0


def test_host_time_is_of_steps() -> None:
    found = latencies([run_of(request([1]), steps=[step(1, 0, 10), step(2, 10, 20)])])["host_ms"]
    assert found is not None
    assert (found.count, found.mean) == (2, pytest.approx(1.5))


def test_memory_is_told_of_the_fullest_step() -> None:
    use = KvUse(token_bytes=MiB // 125, bytes_reserved=99 * MiB, lookups=1000, misses=5)
    steps = (step(1, 0, 1), step(3, 1, 1), replace(step(3, 2, 1), kv_tokens=375), step(2, 3, 1))
    found = kv_figures(Run((), steps, use))
    assert found["peak_bytes_used"] == 3 * MiB
    assert found["peak_bytes_committed"] == 6 * MiB
    # 300 tokens of a 125th MiB in 3 MiB; the step after it was as full, with more tokens.
    assert found["bytes_over_tokens"] == pytest.approx(375 / 300, rel=1e-4)
    assert found["fragmentation"] == pytest.approx(1 - 300 / 375, rel=1e-3)
    assert found["hit_rate"] == pytest.approx(0.995)


def test_memory_that_no_step_left_in_use_wastes_nothing_that_could_be_told() -> None:
    use = KvUse(token_bytes=64, bytes_reserved=MiB, lookups=0, misses=0)
    empty = replace(step(1, 0, 1), kv_tokens=0, kv_bytes_used=0)
    found = kv_figures(Run((), (empty,), use))
    assert (found["peak_bytes_used"], found["hit_rate"]) == (0, 1)
    assert not {"bytes_over_tokens", "fragmentation"} & found.keys()


def test_what_is_not_paged_has_no_memory_to_tell_of() -> None:
    assert kv_figures(Run((), (step(1, 0, 1),))) == {}


def test_speedup_is_the_ratio_of_pairs_above_one_where_the_first_is_faster() -> None:
    fast = [{"a_per_s": 20.0, "b_ms": 5.0, "other": 1.0}, {"a_per_s": 30.0, "b_ms": 5.0}]
    slow = [{"a_per_s": 10.0, "b_ms": 10.0, "other": 1.0}, {"a_per_s": 10.0, "b_ms": 20.0}]
    found = speedups(fast, slow)
    assert list(found) == ["a_per_s", "b_ms"]  # of others nobody knows which way is better
    assert found["a_per_s"] == paired([2.0, 3.0])
    assert (found["b_ms"].min, found["b_ms"].max) == (2.0, 4.0)


def test_energy_counts_as_time_does_less_is_better() -> None:
    found = speedups([{"joules_per_token": 2.0}], [{"joules_per_token": 3.0}])
    assert found["joules_per_token"].mean == pytest.approx(1.5)


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=9))
def test_an_engine_is_as_fast_as_itself(values: list[float]) -> None:
    runs = [{"a_per_s": value, "b_ms": value} for value in values]
    for found in speedups(runs, runs).values():
        assert (found.min, found.max) == (1.0, 1.0)


def test_what_took_no_time_has_no_speedup() -> None:
    assert speedups([{"b_ms": 0.0}], [{"b_ms": 1.0}]) == {}


def test_a_figure_that_a_repetition_lacks_is_of_the_others() -> None:
    found = spreads([{"a": 1.0}, {"a": 3.0, "b": 5.0}, {}])
    assert (found["a"].median, found["b"].median) == (2.0, 5.0)


def test_the_only_request_of_a_role_is_found() -> None:
    run = run_of(request([1]), request([2], role="long"), failed())
    assert run.one("long").token_ms == (2,)
    assert len(run.completed()) == 2
    with pytest.raises(ValueError):
        run.one("short")


def test_a_run_in_which_a_request_failed_says_why() -> None:
    run_of(request([1])).require_all_completed()
    with pytest.raises(OrinError, match="^a request failed: lost$"):
        run_of(request([1]), failed("lost"), failed("found")).require_all_completed()
