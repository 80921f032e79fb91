"""The judge: what the loads of memory and GPU say, and which candidates they rule out."""

from __future__ import annotations

from typing import Any

import pytest
from simulated_board import EMC_CAP, MAXN, MODE_30W, SPACE, SimulatedBoard
from tune_support import SMALL, TTFT, measured, search

from orin_llm.tune.bench import Effort
from orin_llm.tune.drift import Drift, noise
from orin_llm.tune.judge import judge, ruled_out
from orin_llm.tune.knobs import Candidate
from orin_llm.tune.measurement import Load
from orin_llm.tune.outcome import Trial


def trial(
    chunk: int, gpu: float | None, emc: float | None, *, page: int = 16, **more: Any
) -> Trial:
    load = Load(gpu_percent=gpu, emc_percent=emc, emc_mhz=3199, bandwidth_gb_s=170)
    candidate = Candidate.of({"chunk_size": chunk, "page_size": page})
    return Trial(1, "first look", 1, candidate, "measured", measured(prefill=load), **more)


def judged(one: Trial, *earlier: Trial) -> Trial:
    return Trial(**{**vars(one), "verdicts": judge(one, earlier)})


def test_a_saturated_memory_with_a_gpu_that_falls_is_bandwidth_bound() -> None:
    found = judged(trial(512, 70, 92), trial(256, 93, 80))
    (verdict,) = found.verdicts
    assert verdict.bound == "bandwidth" and verdict.advice == "larger chunks no longer pay"
    assert verdict.reason == (
        "EMC 92 % of 3199 MHz (170 GB/s), GPU 70 %, and the GPU had 93 % with the next smaller "
        "chunk"
    )


def test_a_saturated_memory_alone_rules_nothing_out() -> None:
    smaller = trial(256, 93, 80)
    found = judged(trial(512, 93, 92), smaller)
    assert found.verdicts[0].bound == "bandwidth" and found.verdicts[0].advice == ""
    assert ruled_out(trial(1024, 0, 0).candidate, [smaller, found]) == ""


def test_of_a_bandwidth_bound_prefill_larger_chunks_are_ruled_out_and_smaller_are_not() -> None:
    found = [trial(512, 70, 92), trial(256, 93, 80)]  # in whatever order they were measured
    assert "chunks above 512 no longer pay" in ruled_out(trial(1024, 0, 0).candidate, found)
    assert ruled_out(trial(128, 0, 0).candidate, found) == ""
    assert ruled_out(trial(1024, 0, 0, page=32).candidate, found) == ""


def test_a_prefill_that_waits_for_launches_rules_out_smaller_chunks() -> None:
    found = judged(trial(256, 40, 30))
    assert found.verdicts[0].bound == "launch" and found.verdicts[0].advice == "chunks above 256"
    assert "would launch still more" in ruled_out(trial(128, 0, 0).candidate, [found])
    assert ruled_out(trial(512, 0, 0).candidate, [found]) == ""


def test_a_busy_gpu_with_a_memory_that_is_not_is_compute_bound() -> None:
    assert judged(trial(256, 97, 50)).verdicts[0].bound == "compute"


@pytest.mark.parametrize(("gpu", "emc"), [(None, 90), (50, None), (None, None)])
def test_without_a_reading_there_is_no_verdict(gpu: float | None, emc: float | None) -> None:
    assert judged(trial(256, gpu, emc)).verdicts == ()


@pytest.mark.parametrize("mode", [MAXN, MODE_30W, EMC_CAP], ids=lambda mode: mode.name)
def test_on_the_simulated_board_the_judge_rules_out_nothing_that_is_best(mode: Any) -> None:
    board = SimulatedBoard(mode)
    best, _ = board.optimum(TTFT, SPACE)
    earlier: list[Trial] = []
    for chunk in SPACE.knob("chunk_size").values:
        candidate = best.having("chunk_size", chunk)
        one = Trial(1, "", 1, candidate, "measured", board.measure(candidate, Effort()))
        earlier.append(judged(one, *earlier))
    assert ruled_out(best, earlier) == ""
    if mode is not MODE_30W:
        assert "no longer pay" in ruled_out(best.having("chunk_size", 2048), earlier)


def test_a_search_with_sensors_measures_fewer_large_chunks_than_one_without() -> None:
    with_sensors, without = SimulatedBoard(EMC_CAP), SimulatedBoard(EMC_CAP, readings=False)
    seen = search(with_sensors, SPACE)[1]
    pruned = [t for t in seen if t.state == "pruned" and "no longer pay" in t.note]
    assert {t.candidate["chunk_size"] for t in pruned} == {1024, 2048}
    search(without, SPACE)
    assert with_sensors.seconds < without.seconds
    assert all(t.verdicts for t in seen if t.state == "measured")


def test_drift_is_told_by_what_moved() -> None:
    drift = Drift()
    clock = Load(gpu_mhz=1300, emc_mhz=3199)
    drift.begin(measured(prefill=clock))
    assert drift.of_conditions(measured(throttled=(), hottest_c=80)) == ""
    assert drift.of_conditions(measured(throttled=("gpu",))) == "the machine was throttled (gpu)"
    assert "97 °C is near" in drift.of_conditions(measured(hottest_c=97))
    assert drift.of_clocks(measured(prefill=clock)) == ""
    assert drift.of_clocks(measured()) == ""
    slower = measured(prefill=Load(gpu_mhz=1300, emc_mhz=2133))
    assert drift.of_clocks(slower) == "the EMC ran at 2133 MHz in prefill, at 3199 MHz before"


def test_a_change_of_the_defaults_time_counts_where_it_is_beyond_the_usual() -> None:
    quiet, restless = Drift(), Drift()
    for change in (0.001, -0.002, 0.001, 0.002):
        assert quiet.of_time(change) == ""
    assert quiet.of_time(0.08) == "the default's own time changed by +8 % meanwhile"
    for change in (0.05, -0.05, 0.05, -0.05):
        restless.of_time(change)
    assert restless.of_time(0.08) == ""


def test_noise_leaves_out_slow_changes() -> None:
    steady = [0.01 * n for n in range(20)]
    assert noise(steady) == pytest.approx(0.01 * 1.4826 / 2**0.5)
    assert noise([0.0, 0.0]) == 0.0
    assert SMALL.default["page_size"] == 16
