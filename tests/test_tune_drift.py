"""Searches on a machine that fails, heats up or changes meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from tune_support import BEST, SMALL, TTFT, TableBench, by_value, found, refuse, search

from orin_llm.errors import OrinError
from orin_llm.tune.knobs import Candidate, Knob, Space
from orin_llm.tune.measurement import Load
from orin_llm.tune.search import Tuner


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


def test_where_all_others_fail_the_default_is_kept_and_that_is_said() -> None:
    def cost(candidate: Candidate, done: int) -> float:
        return 1.0 if candidate == SMALL.default else refuse(candidate, done)

    outcome = found(TableBench(cost))
    assert outcome.decision == "default" and outcome.reason == "nothing else could be measured"
    lonely = Space((Knob("page_size", (16,), 16),))
    assert found(TableBench(by_value({})), space=lonely).decision == "default"


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


def test_what_was_only_measured_beside_a_default_that_changed_is_not_the_best_so_far() -> None:
    def cost(candidate: Candidate, done: int) -> float:
        if done == 6:
            raise KeyboardInterrupt
        return 5.0 if done < 2 else 1.0

    tuner = Tuner(SMALL, TTFT, TableBench(cost))
    with pytest.raises(KeyboardInterrupt):
        list(tuner.run())
    outcome = tuner.outcome()
    assert len(outcome.trials) == 5 and outcome.trials[1].cost == pytest.approx(0.2)
    assert outcome.best is not None and outcome.best.candidate == SMALL.default
