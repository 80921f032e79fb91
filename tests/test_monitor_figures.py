"""An engine's figures from the lines that it publishes, also from those that are odd."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from monitor_support import answer, engine, line, snapshot

from orin_llm.monitor.figures import STALE_MS, Figures
from orin_llm.monitor.state import EngineFigures


def figures_of(*lines: dict[str, Any], ttft_window: int = 3, tpot_window: int = 3) -> EngineFigures:
    """The figures at the last of these lines, each seen when it was published."""
    watched = Figures(ttft_window, tpot_window)
    for values in lines:
        (newest,) = watched.update(snapshot(values["monotonic_ms"] / 1e3, engine(values)))
    return newest


def test_rates_are_of_the_time_between_two_lines() -> None:
    found = figures_of(
        line(1, decoded=100, prefilled=50, steps=10, decode_ms=200, sampling_ms=5),
        line(3, decoded=160, prefilled=250, steps=30, decode_ms=800, sampling_ms=25),
    )
    assert found.decode_tokens_per_s == 30
    assert found.prefill_tokens_per_s == 100
    assert found.step_ms == 30 + 1


def test_after_one_line_there_are_no_rates() -> None:
    found = figures_of(line(1, decoded=100, steps=10))
    assert found.decode_tokens_per_s is None and found.step_ms is None


def test_without_decode_steps_there_is_no_time_of_one() -> None:
    found = figures_of(line(1, steps=10), line(2, steps=10))
    assert found.step_ms is None and found.decode_tokens_per_s == 0


def test_while_no_step_ends_it_computes_if_something_runs() -> None:
    idle = {"requests": {"running": 0}}
    assert figures_of(line(1, steps=10), line(2, steps=10)).is_computing
    assert not figures_of(line(1, steps=10), line(2, steps=11)).is_computing
    assert not figures_of(line(1, steps=10), line(2, steps=10, **idle)).is_computing
    assert not figures_of(line(1, steps=10)).is_computing


def test_what_is_of_now_is_taken_as_it_is() -> None:
    kv = (30, 20, 50)
    found = figures_of(line(1, kv=kv))
    assert (found.name, found.pid, found.model) == ("7-0", 7, "/models/a.gguf")
    assert (found.running, found.waiting, found.max_running) == (1, 2, 16)
    assert (found.kv_used, found.kv_pages_used, found.kv_pages_total) == (0.3, 30, 100)
    assert found.hit_rate == 0.5


def test_without_pages_nothing_is_told_of_them() -> None:
    found = figures_of(line(1))
    assert found.kv_used is None and found.hit_rate is None and found.kv_pages_used is None


def test_a_line_that_is_seen_twice_keeps_its_rates() -> None:
    watched = Figures(3, 3)
    lines = [line(0), line(1, decoded=40)]
    for at_s, values in ((0.2, lines[0]), (1.1, lines[1]), (1.6, lines[1])):
        (found,) = watched.update(snapshot(at_s, engine(values)))
    assert found.decode_tokens_per_s == 40


def test_rates_of_an_engine_that_is_silent_are_not_of_now() -> None:
    watched = Figures(3, 3)
    watched.update(snapshot(0, engine(line(0))))
    newest = engine(line(1, decoded=40, kv=(1, 0, 1)))
    (in_time,) = watched.update(snapshot(1 + STALE_MS / 1e3, newest))
    assert in_time.decode_tokens_per_s == 40
    (late,) = watched.update(snapshot(1.1 + STALE_MS / 1e3, newest))
    assert late.decode_tokens_per_s is None and late.kv_used == 0.5


def test_a_mean_needs_as_many_answers_as_the_window_has() -> None:
    two = [answer(1, ttft_ms=100), answer(2, ttft_ms=200)]
    found = figures_of(line(1, answers=two))
    assert found.ttft_ms is None and found.tpot_ms is None
    assert (found.last_ttft_ms, found.last_tpot_ms, found.answers) == (200, 20, 2)
    found = figures_of(line(1, answers=two), line(2, answers=[*two, answer(3, ttft_ms=600)]))
    assert found.ttft_ms == 300 and found.tpot_ms == 20


def test_an_answer_counts_once_in_however_many_lines_it_stands() -> None:
    three = [answer(n, ttft_ms=100) for n in (1, 2, 3)]
    more = [*three[1:], answer(4, ttft_ms=700)]
    found = figures_of(line(1, answers=three), line(2, answers=three), line(3, answers=more))
    assert found.ttft_ms == (100 + 100 + 700) / 3


def test_answers_of_more_than_five_minutes_ago_are_no_part_of_a_mean() -> None:
    watched = Figures(2, 2)
    answers = [answer(n, ttft_ms=100 * n) for n in (1, 2)]  # each ended at its number of seconds

    def window(at_s: float, *more: dict[str, Any]) -> tuple[float | None, int, int]:
        values = line(at_s, answers=[*answers, *more])
        (found,) = watched.update(snapshot(at_s, engine(values)))
        assert found.last_ttft_ms is not None
        return found.ttft_ms, found.window_answers, found.tpot_window_answers

    assert window(3) == window(301) == (150, 2, 2)
    assert window(301.5) == (None, 1, 1)
    one_token = {**answer(3, ttft_ms=600, tpot_ms=None), "ended_ms": 302e3}
    assert window(302.5, one_token) == (None, 1, 0)


def test_the_windows_of_ttft_and_tpot_are_their_own() -> None:
    answers = [answer(n, ttft_ms=100 * n, tpot_ms=n) for n in (1, 2, 3, 4)]
    found = figures_of(line(1, answers=answers), ttft_window=2, tpot_window=4)
    assert found.ttft_ms == 350 and found.tpot_ms == 2.5


def test_answers_of_one_token_have_no_tpot_and_do_not_count_as_0() -> None:
    answers = [answer(1, tpot_ms=30), answer(2, tpot_ms=None), answer(3, tpot_ms=60)]
    found = figures_of(line(1, answers=answers), ttft_window=3, tpot_window=2)
    assert found.tpot_ms == 45 and found.ttft_ms == 100
    assert figures_of(line(1, answers=answers[:2])).last_tpot_ms is None


def test_answers_that_no_line_showed_are_skipped() -> None:
    found = figures_of(
        line(1, answers=[answer(1, ttft_ms=10)]),
        line(2, answers=[answer(n, ttft_ms=90) for n in range(50, 66)]),
    )
    assert found.ttft_ms == 90 and found.answers == 65


@pytest.mark.parametrize(
    "again",
    [
        {"decoded": 5, "answers": []},
        {"decoded": 500, "answers": [answer(1, ttft_ms=7)]},
        {"decoded": 500, "answers": [answer(n) for n in (7, 8)], "at_s": 0.5},
    ],
    ids=["counters", "answers", "clock"],
)
def test_an_engine_started_again_under_the_same_name_begins_anew(again: dict[str, Any]) -> None:
    values = {"at_s": 3.0, **again}
    first = line(1, decoded=100), line(2, decoded=200, answers=[answer(n) for n in range(1, 6)])
    found = figures_of(*first, line(**values))
    assert found.decode_tokens_per_s is None
    assert found.answers == max((a["number"] for a in again["answers"]), default=4)
    assert found.ttft_ms is None


def test_another_process_under_the_same_name_begins_anew() -> None:
    watched = Figures(1, 1)
    watched.update(snapshot(1, engine(line(1, decoded=5, answers=[answer(1)]))))
    (found,) = watched.update(snapshot(2, engine(line(2, decoded=500), pid=8)))
    assert found.decode_tokens_per_s is None and found.ttft_ms is None


def test_an_engine_that_was_away_for_a_snapshot_begins_anew() -> None:
    watched = Figures(1, 1)
    watched.update(snapshot(1, engine(line(1, decoded=5, answers=[answer(1)]))))
    assert watched.update(snapshot(2)) == ()
    (found,) = watched.update(snapshot(3, engine(line(3, decoded=5))))
    assert found.decode_tokens_per_s is None and found.ttft_ms is None


def test_engines_do_not_mix() -> None:
    watched = Figures(1, 1)
    for at_s, rates in ((0, (0, 0)), (1, (10, 70))):
        first, second = (line(at_s, decoded=decoded) for decoded in rates)
        found = watched.update(snapshot(at_s, engine(first), engine(second, name="8-0", pid=8)))
    assert [figures.decode_tokens_per_s for figures in found] == [10, 70]


def test_an_engine_that_publishes_no_answers_has_its_other_figures() -> None:
    found = figures_of(line(1), line(2, decoded=30))
    assert found.ttft_ms is None and found.decode_tokens_per_s == 30 and found.answers == 4


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
NAMES = ("requests", "steps", "tokens", "time_ms", "lanes", "kv", "answers", "at_ms")


@given(st.lists(st.dictionaries(st.sampled_from([*NAMES, "monotonic_ms"]), ODD), max_size=4))
def test_whatever_an_engine_publishes_there_are_figures_of_finite_numbers(
    changes: list[dict[str, Any]],
) -> None:
    watched = Figures(1, 1)
    for at_s, change in enumerate(changes):
        values = {**line(at_s, answers=[answer(1)], kv=(1, 1, 1)), **change}
        (found,) = watched.update(snapshot(at_s, engine(values)))
        for value in found.to_json().values():
            assert isinstance(value, str) or value is None or math.isfinite(value)


@pytest.mark.parametrize("largest", [17 * 10**307, 1.7e308])
def test_numbers_near_the_end_of_what_there_is_are_no_figures(largest: float) -> None:
    found = figures_of(
        {**line(1, answers=[answer(1, largest)]), "tokens": {"decoded": -largest}},
        {**line(2, answers=[answer(2, largest)]), "tokens": {"decoded": largest}},
        ttft_window=2,
    )
    assert found.decode_tokens_per_s is None and found.ttft_ms is None


def test_a_clock_that_jumps_over_all_numbers_gives_no_rates() -> None:
    watched = Figures(3, 3)
    for clock in (-17 * 10**307, 17 * 10**307):
        sample = engine({**line(1), "monotonic_ms": clock})
        (found,) = watched.update(snapshot(1, sample))
    assert found.decode_tokens_per_s is None
