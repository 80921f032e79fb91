"""The search: what it measures, what it decides, and how it deals with a machine that changes."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from tune_support import BEST, SMALL, TTFT, TableBench, by_value, found, noisy, search

from orin_llm.errors import UsageError
from orin_llm.tune.goal import Constraints, Goal
from orin_llm.tune.knobs import Candidate, Knob, Space
from orin_llm.tune.measurement import Load
from orin_llm.tune.plan import Plan
from orin_llm.tune.search import Tuner

# What is found


def test_the_best_combination_is_found_and_its_gain_told() -> None:
    outcome = found(noisy(BEST, 0.005))
    assert outcome.decision == "better" and outcome.best is not None
    assert outcome.settings == {"chunk_size": 256, "page_size": 32}
    assert outcome.best.cost is not None and outcome.best.cost.value == pytest.approx(
        0.72, rel=0.02
    )
    assert outcome.default is not None and outcome.default.cost is not None
    assert outcome.default.cost.value == 1
    assert outcome.noise == pytest.approx(0.005, rel=0.8)


def test_the_default_is_kept_where_it_is_the_best() -> None:
    outcome = found(noisy({("chunk_size", 128): 1.2, ("chunk_size", 256): 1.1,
                           ("page_size", 32): 1.1}, 0.005))  # fmt: skip
    assert outcome.decision == "default"
    assert outcome.settings == dict(SMALL.default)


def test_differences_that_are_chance_keep_the_default_and_are_called_noise() -> None:
    decisions = Counter(found(noisy({}, 0.03, seed)).decision for seed in range(30))
    assert decisions["better"] <= 3, decisions  # 2.5 % of comparisons are wrong by themselves
    outcome = next(
        o for seed in range(30) if (o := found(noisy({}, 0.03, seed))).decision == "noise"
    )
    assert outcome.settings == dict(SMALL.default) and "by chance" in outcome.reason


def test_two_searches_choose_the_same_or_say_that_the_choices_are_alike() -> None:
    table = {("chunk_size", 256): 0.8, ("chunk_size", 128): 0.803, ("page_size", 32): 0.998}
    for seed in range(10):
        one, two = (found(noisy(table, 0.01, n)) for n in (seed, seed + 100))
        assert one.best is not None and two.best is not None
        first, second = one.best.candidate, two.best.candidate
        if first != second:
            assert first in two.indistinguishable and second in one.indistinguishable


def test_of_two_that_are_alike_the_nearer_to_the_default_is_taken() -> None:
    table = {("chunk_size", 256): 0.8, ("chunk_size", 128): 0.8}
    for seed in range(5):
        assert found(noisy(table, 0.003, seed)).settings["chunk_size"] == 256


def test_a_full_grid_measures_every_combination_with_all_repetitions() -> None:
    bench = noisy(BEST, 0.005)
    outcome = found(bench, full=True, repetitions=4)
    assert outcome.decision == "better" and outcome.settings["chunk_size"] == 256
    counts = Counter(bench.asked)
    assert {*counts} == {*SMALL.candidates()}
    others = [t for t in outcome.trials if t.candidate != SMALL.default]
    assert len(others) == 5 and all(
        len(t.measurement.samples) == 4 for t in others if t.measurement
    )


def test_a_search_takes_less_than_half_of_the_grids_time() -> None:
    knobs = (*SMALL.knobs, Knob("threads", (1, 2, 4), 4))
    table = {**BEST, ("threads", 1): 3.0, ("threads", 2): 1.6}
    full, few = noisy(table, 0.005), noisy(table, 0.005)
    assert (
        found(full, space=Space(knobs), full=True).settings
        == found(few, space=Space(knobs)).settings
    )
    assert few.seconds < 0.5 * full.seconds


def test_what_looks_bad_by_its_values_alone_is_not_measured_and_says_so() -> None:
    knobs = (*SMALL.knobs, Knob("threads", (1, 2, 4), 4))
    bench = noisy({("threads", 1): 3.0, ("threads", 2): 1.6}, 0.005)
    outcome = found(bench, space=Space(knobs))
    pruned = [t for t in outcome.trials if t.state == "pruned"]
    assert pruned and all(t.note == "not promising, by its values one by one" for t in pruned)
    slow = [c for c in bench.asked if c["threads"] == 1]
    assert {tuple(c.values()) for c in slow} == {(512, 16, 1)}


def test_no_more_candidates_are_looked_at_than_there_are_trials() -> None:
    bench = noisy(BEST, 0.005)
    outcome = found(bench, most_trials=2)
    assert len({*bench.asked} - {SMALL.default}) == 2
    pruned = [t for t in outcome.trials if t.state == "pruned"]
    assert pruned and {t.note for t in pruned} == {"beyond the trials"}


def test_every_trial_of_a_candidate_stands_beside_the_default_in_its_turn() -> None:
    _, trials = search(noisy(BEST, 0.005))
    turns = {t.turn for t in trials}
    for turn in turns:
        assert any(t.candidate == SMALL.default for t in trials if t.turn == turn)
    assert [t.number for t in trials] == list(range(1, len(trials) + 1))


# Bounds


def test_a_bound_rules_out_what_is_faster_but_beyond_it() -> None:
    goal = Goal("ttft", Constraints(max_tpot_ms=60))

    def about(candidate: Candidate, done: int) -> dict[str, Any]:
        return {"prefill": Load(gpu_percent=95)}

    class Bench(TableBench):
        def measure(self, candidate: Candidate, effort: Any) -> Any:
            whole = super().measure(candidate, effort)
            tpot = 70.0 if candidate["page_size"] == 32 else 50.0
            samples = [type(s)(**{**vars(s), "tpot_ms": tpot}) for s in whole.samples]
            return type(whole)(**{**vars(whole), "samples": tuple(samples)})

    outcome = found(Bench(by_value(BEST), about), goal=goal)
    assert outcome.decision == "better"
    assert outcome.settings == {"chunk_size": 256, "page_size": 16}
    beyond = [s for s in outcome.runners_up if s.candidate["page_size"] == 32]
    assert beyond and all(s.violations == ("TPOT of 70 ms is above 60 ms",) for s in beyond)


def test_bounds_that_nothing_holds_are_said_and_the_nearest_is_named() -> None:
    goal = Goal("ttft", Constraints(max_ttft_ms=500))
    outcome = found(TableBench(by_value(BEST)), goal=goal)
    assert outcome.decision == "infeasible" and outcome.best is not None
    assert outcome.reason == (
        "nothing holds the bounds; nearest to them: TTFT of 720 ms is above 500 ms"
    )
    assert outcome.best.candidate == Candidate.of({"chunk_size": 256, "page_size": 32})


def test_a_default_beyond_the_bounds_gives_way_to_a_slower_one_within_them() -> None:
    goal = Goal("ttft", Constraints(max_ttft_ms=900))
    outcome = found(TableBench(by_value({("chunk_size", 256): 0.85})), goal=goal)
    assert outcome.decision == "better" and outcome.settings["chunk_size"] == 256


def test_a_goal_without_its_readings_is_refused_after_the_first_measurement() -> None:
    bench = TableBench(by_value({}))
    with pytest.raises(UsageError, match="the goal energy needs readings of power"):
        search(bench, goal=Goal("energy"))
    assert len(bench.asked) == 1


# Ends


def test_ctrl_c_leaves_the_best_so_far() -> None:
    def cost(candidate: Candidate, done: int) -> float:
        if done == 8:
            raise KeyboardInterrupt
        return by_value(BEST)(candidate, done)

    tuner = Tuner(SMALL, TTFT, TableBench(cost))
    with pytest.raises(KeyboardInterrupt):
        list(tuner.run())
    outcome = tuner.outcome()
    assert outcome.decision == "unfinished" and outcome.best is not None
    assert outcome.best.candidate["chunk_size"] == 256
    assert outcome.reason == "ended before the last comparison: the best so far"


def test_before_anything_is_measured_there_is_no_best() -> None:
    outcome = Tuner(SMALL, TTFT, TableBench(by_value({}))).outcome()
    assert outcome.best is None and outcome.default is None and outcome.settings == {}
    assert outcome.decision == "unfinished"


def test_a_time_limit_goes_to_the_last_comparison() -> None:
    bench = noisy(BEST, 0.005)
    outcome = found(bench, time_limit_s=8.0)
    stages = [t.stage for t in outcome.trials]
    assert "final" in stages and not any(stage.startswith("round") for stage in stages)
    assert outcome.decision == "better"


def test_progress_ends_where_nothing_is_left() -> None:
    tuner = Tuner(SMALL, TTFT, noisy(BEST, 0.005))
    assert tuner.progress.done == 0 and tuner.progress.left_s is None
    seen = [tuner.progress for _ in tuner.run()]
    assert all(p.total >= p.done for p in seen) and tuner.progress.left_s == 0
    assert [p.done for p in seen] == sorted(p.done for p in seen)


@pytest.mark.parametrize(
    "bad",
    [
        {"repetitions": 1},
        {"most_trials": 0},
        {"time_limit_s": 0},
        {"time_limit_s": math.nan},
        {"seed": -1},
        {"seed": 1 << 32},
    ],
)
def test_plans_that_mean_nothing_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Plan(**bad)
