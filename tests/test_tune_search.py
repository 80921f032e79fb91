"""The search: what it measures, what it decides, and how it deals with a machine that changes."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tune_support import SMALL, TTFT, TableBench, by_value, measured, refuse, search

from orin_llm.engine import EngineConfig
from orin_llm.errors import OrinError, UsageError
from orin_llm.tune.goal import Constraints, Goal
from orin_llm.tune.knobs import Candidate, Knob, Space
from orin_llm.tune.measurement import Load
from orin_llm.tune.outcome import Outcome
from orin_llm.tune.pairs import ratio_of
from orin_llm.tune.screen import neighbours, predictions, star
from orin_llm.tune.search import Plan, Tuner

BEST = {("chunk_size", 256): 0.8, ("chunk_size", 128): 0.9, ("page_size", 32): 0.9}


def noisy(table: dict[tuple[str, Any], float], sigma: float, seed: int = 0) -> TableBench:
    chance = random.Random(seed)
    exact = by_value(table)
    return TableBench(lambda c, done: exact(c, done) * math.exp(chance.gauss(0, sigma)))


def found(bench: TableBench, **more: Any) -> Outcome:
    return search(bench, **more)[0].outcome()


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
    assert outcome.settings == dict(SMALL.default) and "by chance alone" in outcome.reason


def test_two_searches_choose_the_same_or_say_that_the_choices_are_alike() -> None:
    table = {("chunk_size", 256): 0.8, ("chunk_size", 128): 0.803, ("page_size", 32): 0.998}
    for seed in range(10):
        one, two = (found(noisy(table, 0.01, n)) for n in (seed, seed + 100))
        assert one.best is not None and two.best is not None
        if one.best.candidate != two.best.candidate:
            alike = {one.best.candidate, *one.indistinguishable}
            assert two.best.candidate in alike | {one.best.candidate}
            assert one.best.candidate in {two.best.candidate, *two.indistinguishable}


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


# Failures and drift


def test_a_candidate_that_fails_is_kept_with_its_reason_and_its_value_not_tried_again() -> None:
    def cost(candidate: Candidate, done: int) -> float:
        if candidate["chunk_size"] == 128:
            refuse(candidate, done)
        return by_value(BEST)(candidate, done)

    outcome = found(bench := TableBench(cost))
    failed = [t for t in outcome.trials if t.state == "failed"]
    assert [(dict(t.candidate), t.note) for t in failed] == [
        ({"chunk_size": 128, "page_size": 16}, "no room")
    ]
    assert outcome.settings == {"chunk_size": 256, "page_size": 32}
    assert sum(c["chunk_size"] == 128 for c in bench.asked) == 1


def test_a_default_that_fails_is_the_error() -> None:
    with pytest.raises(OrinError, match="no room"):
        search(TableBench(refuse))


def test_a_throttled_measurement_is_repeated_when_the_machine_has_settled() -> None:
    def about(candidate: Candidate, done: int) -> dict[str, Any]:
        hot = candidate["chunk_size"] == 256 and not bench.settled
        return {"throttled": ("gpu",) if hot else ()}

    def cost(candidate: Candidate, done: int) -> float:
        return by_value(BEST)(candidate, done) * (1 if bench.settled else 5)

    bench = TableBench(cost, about)
    outcome = found(bench)
    drifted = [t for t in outcome.trials if t.state == "drifted"]
    assert [t.note for t in drifted] == ["the machine was throttled (gpu)"]
    assert bench.settled == 1 and outcome.settings["chunk_size"] == 256
    assert outcome.best is not None and outcome.best.measurement.ttft_ms[512] < 1000


def test_a_machine_that_stays_throttled_is_not_waited_for_for_ever() -> None:
    bench = TableBench(by_value(BEST), lambda c, done: {"throttled": ("gpu",)})
    outcome = found(bench)
    assert outcome.settings == {"chunk_size": 256, "page_size": 32}
    assert bench.settled <= 6
    assert any(t.state == "measured" and "throttled" in t.note for t in outcome.trials)


def test_a_turn_in_which_the_default_became_slower_is_measured_again_and_says_nothing() -> None:
    """From the second turn on all is half as fast: what stood beside the old default looks bad."""

    def cost(candidate: Candidate, done: int) -> float:
        return by_value(BEST)(candidate, done) * (1 if done < 4 else 2)

    tuner, trials = search(bench := TableBench(cost))
    again = [t for t in trials if t.candidate == Candidate.of({"chunk_size": 256, "page_size": 16})]
    assert len(again) >= 2 and again[0].cost == pytest.approx(0.8)
    outcome = tuner.outcome()
    assert outcome.settings == {"chunk_size": 256, "page_size": 32} and bench.done < 60
    for standing in outcome.runners_up:
        assert standing.cost is not None
        exact = by_value(BEST)(standing.candidate, 0)
        assert standing.cost.value == pytest.approx(exact, rel=1e-6)


def test_a_clock_that_moved_is_a_drift_and_in_the_end_the_new_condition() -> None:
    def about(candidate: Candidate, done: int) -> dict[str, Any]:
        return {"prefill": Load(emc_mhz=3199 if done < 3 else 2133)}

    bench = TableBench(by_value(BEST), about)
    outcome = found(bench)
    notes = [t.note for t in outcome.trials if t.state == "drifted"]
    assert notes and notes[0] == "the EMC ran at 2133 MHz in prefill, at 3199 MHz before"
    assert len(notes) == 2 and outcome.decision == "better"


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
    "bad", [{"repetitions": 1}, {"most_trials": 0}, {"time_limit_s": 0}, {"time_limit_s": math.nan}]
)
def test_plans_that_mean_nothing_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Plan(**bad)


# Parts


def test_a_space_leaves_out_what_is_not_allowed() -> None:
    space = Space(SMALL.knobs, lambda c: c["page_size"] == 16 or c["chunk_size"] == 512)
    assert len(list(space.candidates())) == 4 and space.combinations == 6
    assert space.default in list(space.candidates())


def test_settings_are_fields_of_the_engine_and_texts_of_kernels_are_joined() -> None:
    space = Space(
        (
            Knob("chunk_size", (256, 512), 512),
            Knob("path", ("", "product_tokens=0"), "", "kernels"),
            Knob("vector", ("", "vector_tokens=2"), "", "kernels"),
        )
    )
    assert space.settings(space.default) == {"chunk_size": 512}
    chosen = space.default.having("path", "product_tokens=0").having("vector", "vector_tokens=2")
    assert space.settings(chosen)["kernels"] == "product_tokens=0,vector_tokens=2"
    config = space.config(chosen, EngineConfig(threads=3))
    assert config.threads == 3 and config.kernels.chosen["vector_tokens"] == 2


def test_a_knob_the_engine_has_not_is_a_clear_error() -> None:
    space = Space((Knob("speed", (1, 2), 1),))
    with pytest.raises(UsageError, match="the engine cannot be set like this"):
        space.config(space.default, EngineConfig())
    with pytest.raises(UsageError, match="speed has no value 3, its default"):
        Knob("speed", (1, 2), 3)


def test_the_star_has_every_other_value_once_and_the_nearest_first() -> None:
    found = list(star(SMALL))
    assert [dict(c) for c in found] == [
        {"chunk_size": 256, "page_size": 16},
        {"chunk_size": 128, "page_size": 16},
        {"chunk_size": 512, "page_size": 32},
    ]
    near = neighbours(SMALL, Candidate.of({"chunk_size": 256, "page_size": 32}))
    assert {tuple(c.values()) for c in near} == {(128, 32), (512, 32), (256, 16)}


@given(st.lists(st.floats(-0.5, 0.5), min_size=3, max_size=3))
def test_predictions_add_up_the_effects_of_values(effects: list[float]) -> None:
    known = {SMALL.default: 0.0, **dict(zip(star(SMALL), effects, strict=True))}
    both = Candidate.of({"chunk_size": 256, "page_size": 32})
    (predicted,) = predictions(SMALL, known, [both])
    assert predicted == pytest.approx(effects[0] + effects[2], abs=2e-3)


@settings(max_examples=30)
@given(st.floats(-0.3, 0.3), st.integers(2, 30), st.integers(0, 1000))
def test_a_ratios_interval_is_that_of_the_logs_and_a_far_pair_is_left_out(
    shift: float, n: int, seed: int
) -> None:
    chance = random.Random(seed)
    logs = [shift + chance.gauss(0, 0.02) for _ in range(n)]
    ratio = ratio_of(logs)
    assert ratio is not None and ratio.low is not None and ratio.high is not None
    assert ratio.low <= ratio.value <= ratio.high
    if n >= 10:
        with_far = ratio_of([*logs, shift + 3.0])
        assert with_far is not None and with_far.outliers >= 1
        assert with_far.value == pytest.approx(math.exp(shift), rel=0.05)


def test_one_pair_has_no_interval() -> None:
    ratio = ratio_of([0.1])
    assert ratio is not None and ratio.low is None
    assert not ratio.is_below_one and not ratio.is_above_one and ratio_of([]) is None
    assert measured().samples[0].ttft_ms == {512: 100.0}
