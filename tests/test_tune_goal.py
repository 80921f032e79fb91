"""Goals: what a cost is, and when a bound holds."""

from __future__ import annotations

import json
import math

import pytest
from tune_support import measured

from orin_llm.errors import UsageError
from orin_llm.tune.goal import GOALS, Constraints, Goal
from orin_llm.tune.measurement import Load, Measurement, Pages, Sample

HALF = Sample(
    ttft_ms={128: 50, 512: 200},
    tpot_ms=20,
    tokens_per_s=400,
    joules_per_token=1.5,
)
DEFAULT = Sample(ttft_ms={128: 100, 512: 400}, tpot_ms=40, tokens_per_s=200, joules_per_token=3)


@pytest.mark.parametrize("name", GOALS)
def test_twice_as_good_is_half_the_cost_for_every_goal(name: str) -> None:
    cost = Goal(name).log_cost(HALF, DEFAULT)
    assert cost == pytest.approx(math.log(0.5))
    assert Goal(name).log_cost(DEFAULT, DEFAULT) == 0


def test_ttft_counts_every_prompt_length_alike() -> None:
    one = Sample(ttft_ms={128: 50, 512: 400})
    assert Goal("ttft").log_cost(one, DEFAULT) == pytest.approx(math.log(0.5) / 2)


def test_balanced_is_the_mean_of_ttft_tpot_and_throughput() -> None:
    sample = Sample(ttft_ms={128: 200, 512: 800}, tpot_ms=20, tokens_per_s=200)
    assert Goal("balanced").log_cost(sample, DEFAULT) == pytest.approx(0.0)


@pytest.mark.parametrize("name", GOALS)
def test_what_was_not_measured_has_no_cost(name: str) -> None:
    assert Goal(name).log_cost(Sample(), DEFAULT) is None
    assert Goal(name).log_cost(DEFAULT, Sample()) is None


def test_bounds_name_what_does_not_hold_and_by_how_much() -> None:
    goal = Goal("ttft", Constraints(max_ttft_ms=300, max_tpot_ms=60, max_power_w=30))
    held = measured({128: 400, 512: 250}, tpot_ms=60, power_w=29)
    assert goal.violations(held) == () and goal.excess(held) == 0
    beyond = measured({512: 600}, tpot_ms=50, power_w=33)
    assert goal.violations(beyond) == (
        "TTFT of 600 ms is above 300 ms",
        "power of 33 W is above 30 W",
    )
    assert goal.excess(beyond) == pytest.approx(math.log(2))


def test_the_bound_of_tpot_is_for_streams_among_others_too() -> None:
    goal = Goal("throughput", Constraints(max_tpot_ms=60))
    assert goal.violations(measured(tpot_ms=20, concurrent_tpot_ms=61))
    assert not goal.violations(measured(tpot_ms=20, concurrent_tpot_ms=59))


def test_a_bound_whose_figure_was_not_read_does_not_hold() -> None:
    goal = Goal("ttft", Constraints(max_power_w=30))
    assert goal.needs_power
    assert goal.violations(measured()) == ("power could not be measured, at most 30 W are wanted",)
    assert goal.excess(measured()) == math.inf


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_bounds_that_mean_nothing_are_refused(bad: float) -> None:
    with pytest.raises(UsageError, match="max_tpot_ms is"):
        Constraints(max_tpot_ms=bad)
    with pytest.raises(UsageError, match="no goal 'fast': expected ttft, tpot"):
        Goal("fast")
    with pytest.raises(UsageError, match="expected 1 or more"):
        Constraints(max_perplexity_ratio=0.9)


def test_a_measurement_survives_json() -> None:
    found = Measurement(
        (HALF, DEFAULT),
        prefill=Load(gpu_percent=90, emc_mhz=3199),
        pages=Pages(waste=0.1),
        hottest_c=60.5,
        throttled=(),
        load_s=1.5,
    )
    assert Measurement.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_figures_of_a_measurement_are_medians_of_its_repetitions() -> None:
    samples = tuple(
        Sample(ttft_ms={64: ms}, tpot_ms=tpot, elapsed_s=2.0)
        for ms, tpot in ((10, 1.0), (90, None), (20, 3.0))
    )
    found = Measurement(samples, load_s=1.0)
    assert found.ttft_ms == {64: 20} and found.tpot_ms == 2.0 and found.tokens_per_s is None
    assert found.elapsed_s == 7.0


def test_joined_measurements_keep_all_repetitions_and_the_highest_temperature() -> None:
    parts = [
        measured(10, hottest_c=50, prefill=Load(gpu_percent=80), throttled=()),
        measured(30, hottest_c=61, prefill=Load(gpu_percent=90), throttled=("gpu",)),
        measured(20),
    ]
    found = Measurement.joined(parts)
    assert found.ttft_ms == {512: 20} and len(found.samples) == 3
    assert found.hottest_c == 61 and found.throttled == ("gpu",)
    assert found.prefill.gpu_percent == 85 and found.prefill.emc_percent is None
