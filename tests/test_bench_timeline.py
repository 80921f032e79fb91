"""What a result keeps for pictures: bounded whatever was measured, and true to it."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from bench_support import request, run_of, step
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.bench.histogram import N_BINS, Histogram
from orin_llm.bench.records import Run
from orin_llm.bench.timeline import MAX_PHASES, MAX_POINTS, Timeline, timeline
from orin_llm.device.reading import Reading


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200))
def test_every_value_is_in_the_bin_that_has_it(values: list[float]) -> None:
    found = Histogram.of(values)
    assert found is not None and len(found.counts) == N_BINS
    assert len(found.edges_ms) == N_BINS + 1
    assert all(low < high for low, high in pairwise(found.edges_ms))
    for number, (low, high) in enumerate(pairwise(found.edges_ms)):
        last = number == N_BINS - 1
        inside = sum(low <= value < high or (last and value == high) for value in values)
        assert found.counts[number] == inside
    assert sum(found.counts) == len(values)


def test_gaps_that_are_ten_times_as_long_have_bins_of_their_own() -> None:
    found = Histogram.of([10.0, 10.2, 10.4, 300.0, 310.0])
    assert found is not None
    filled = [number for number, count in enumerate(found.counts) if count]
    assert len(filled) >= 3 and filled[-1] - filled[0] > N_BINS // 2


def test_without_values_there_is_no_histogram() -> None:
    assert Histogram.of([]) is None


def reading(at_ms: float, **sensors: float) -> Reading:
    return Reading(at_ms, **sensors)  # type: ignore[arg-type]


def measured(run: Run, *readings: Reading) -> Timeline:
    found = timeline(replace(run, readings=tuple(readings)))
    assert found is not None
    return found


PROMPT_AND_ANSWER = run_of(
    request([1100, 1110, 1120], submitted_ms=1000),
    steps=[
        step(1, 1001, 50, prompt=512), step(2, 1051, 49, prompt=100), step(3, 1100, 10),
        step(4, 1110, 10),
    ],
)  # fmt: skip


def test_times_begin_with_the_first_request_and_phases_are_those_of_the_steps() -> None:
    found = measured(PROMPT_AND_ANSWER, reading(990, power_w=10), reading(1050, power_w=20))
    assert found.at_ms == (-10, 50)
    assert found.sensors == {"power_w": (10, 20)}
    assert [(p.start_ms, p.end_ms, p.name) for p in found.phases] == [
        (1, 100, "prefill"),
        (100, 120, "decode"),
    ]


def test_a_sensor_that_was_read_now_and_then_has_gaps_and_others_are_missing() -> None:
    found = measured(
        PROMPT_AND_ANSWER,
        reading(1000, power_w=1),
        reading(1050, emc_percent=30),
        replace(reading(1100), temperatures_c={"cpu": 50.0, "gpu": 61.5}),
    )
    assert found.sensors == {
        "power_w": (1, None, None),
        "emc_percent": (None, 30, None),
        "hottest_c": (None, None, 61.5),
    }


def test_a_pause_between_steps_is_no_phase() -> None:
    run = run_of(
        request([10, 20], submitted_ms=0),
        request([1010, 1020], submitted_ms=1000),
        steps=[step(1, 0, 20), step(2, 1000, 20)],
    )
    found = measured(run, reading(0, power_w=1))
    assert [(p.start_ms, p.end_ms) for p in found.phases] == [(0, 20), (1000, 1020)]


def test_without_steps_the_phases_are_those_of_the_requests() -> None:
    found = measured(run_of(request([30, 40], submitted_ms=0)), reading(0, power_w=1))
    assert [(p.start_ms, p.end_ms, p.name) for p in found.phases] == [
        (0, 30, "prefill"),
        (30, 40, "decode"),
    ]


def test_a_run_without_readings_or_requests_has_no_timeline() -> None:
    assert timeline(PROMPT_AND_ANSWER) is None
    assert timeline(Run((), readings=(reading(0, power_w=1),))) is None


@pytest.mark.parametrize("count", [1, MAX_POINTS, MAX_POINTS + 1, 12_345])
def test_points_are_bounded_and_keep_the_mean(count: int) -> None:
    watts = [random.Random(at).uniform(5, 50) for at in range(count)]
    found = measured(PROMPT_AND_ANSWER, *(reading(at, power_w=w) for at, w in enumerate(watts)))
    kept = found.sensors["power_w"]
    assert len(kept) == len(found.at_ms) <= MAX_POINTS
    assert len(kept) > MAX_POINTS // 2 or len(kept) == count
    known = [value for value in kept if value is not None]
    assert sum(known) / len(known) == pytest.approx(sum(watts) / count, rel=0.02)


def test_phases_are_bounded_and_keep_their_shares() -> None:
    """20 ms of prefill and 30 ms of decode in turns, 10,000 times, then only decode."""
    steps = []
    for turn in range(10_000):
        steps.append(step(2 * turn + 1, 50.0 * turn, 20, prompt=1))
        steps.append(step(2 * turn + 2, 50.0 * turn + 20, 30))
    steps.append(step(20_001, 500_000, 500_000))
    run = run_of(request([10, 1_000_000], submitted_ms=0), steps=steps)
    found = measured(run, reading(0, power_w=1))
    assert 1 <= len(found.phases) <= MAX_PHASES
    assert all(a.end_ms <= b.start_ms + 1e-6 for a, b in pairwise(found.phases))
    decode = sum(p.end_ms - p.start_ms for p in found.phases if p.name == "decode")
    assert decode == pytest.approx(1_000_000, rel=0.01)  # most of every slot
