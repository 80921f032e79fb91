"""Alerts: each is raised once and cleared once, whatever the values do."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from monitor_support import START_MS, answer, engine, line, snapshot

from orin_llm.monitor.alerts import AlertBook
from orin_llm.monitor.figures import Figures
from orin_llm.monitor.snapshot import Snapshot
from orin_llm.monitor.state import Alert, AlertEvent
from orin_llm.monitor.thresholds import Occurrence, Threshold, Thresholds

WAITING = 5.0  # s, that power must be above before its alert is raised


class Book:
    """An alert book that is given a snapshot a second, and all it has told."""

    def __init__(self, **rules: Threshold | Occurrence) -> None:
        thresholds = replace(Thresholds(), **rules)  # type: ignore[arg-type]
        self.figures = Figures(thresholds.ttft_ms.window or 1, thresholds.tpot_ms.window or 1)
        self.book = AlertBook(thresholds)
        self.alerts: tuple[Alert, ...] = ()
        self.events: list[AlertEvent] = []
        self.problems: dict[str, str] = {}

    def see(self, *snapshots: Snapshot) -> list[str]:
        """What is raised and cleared by these, with the problems of now."""
        first = len(self.events)
        for taken in snapshots:
            figures = self.figures.update(taken)
            self.alerts, events = self.book.update(taken, figures, self.problems)
            self.events += events
        return [f"{event.kind} {event.alert.rule}" for event in self.events[first:]]


def hot(at_s: float, degrees: float | None) -> Snapshot:
    return snapshot(at_s, temperatures_c={} if degrees is None else {"tj": degrees})


def test_an_alert_is_raised_once_and_cleared_once() -> None:
    book = Book()
    assert book.see(hot(0, 85)) == []
    assert book.see(hot(1, 85.5)) == ["raised temperature_c"]
    assert book.see(hot(2, 92), hot(3, 86), hot(4, 80.5)) == []
    assert book.see(hot(5, 80)) == ["cleared temperature_c"]
    assert book.see(hot(6, 80), hot(7, 20)) == [] and book.alerts == ()
    assert book.see(hot(8, 90)) == ["raised temperature_c"]


def test_between_the_two_limits_nothing_happens() -> None:
    book = Book()
    assert book.see(*(hot(n, 80.1 + n % 5) for n in range(50))) == []
    book.see(hot(50, 86))
    assert book.see(*(hot(51 + n, 80.1 + n % 5) for n in range(50))) == []


def test_an_alert_tells_what_where_since_when_and_how_much_now() -> None:
    book = Book()
    book.see(hot(1, 86), hot(2, 91.25))
    (alert,) = book.alerts
    assert alert == Alert(
        "temperature_c", "", 91.25, 85, START_MS + 1000, "temperature 91.2 °C (tj), above 85 °C"
    )
    book.see(hot(3, 83))
    (alert,) = book.alerts
    assert alert.value == 83
    assert alert.text == "temperature 83.0 °C (tj), was above 85 °C and is not down to 80 °C"
    book.see(hot(4, 79))
    raised, cleared = book.events
    assert (raised.kind, raised.at_ms, raised.alert.value) == ("raised", START_MS + 1000, 86)
    assert (cleared.kind, cleared.at_ms) == ("cleared", START_MS + 4000)
    assert cleared.alert.text == "temperature 79.0 °C (tj), not above 80 °C"
    assert (cleared.alert.value, cleared.alert.since_ms) == (79, START_MS + 1000)


def test_a_spike_raises_nothing_where_it_must_last() -> None:
    book = Book()
    assert book.see(*(snapshot(n, power_w=40 if n % 5 else 20) for n in range(21))) == []
    assert book.see(*(snapshot(21 + n, power_w=40) for n in range(5))) == []
    assert book.see(snapshot(26, power_w=40)) == ["raised power_w"]
    assert book.alerts[0].since_ms == START_MS + 21_000
    assert book.events[0].at_ms == START_MS + 26_000


def test_after_it_was_cleared_it_must_last_again() -> None:
    book = Book()
    assert book.see(snapshot(0, power_w=40), snapshot(5, power_w=40)) == ["raised power_w"]
    assert book.see(snapshot(6, power_w=1), snapshot(7, power_w=40)) == ["cleared power_w"]
    assert book.see(snapshot(12, power_w=40)) == ["raised power_w"]


def test_how_long_it_lasts_is_told_by_a_clock_that_nobody_sets() -> None:
    """A board without a battery starts in the past and jumps when it reaches a time server."""
    book = Book()
    years = 1e9
    assert (
        book.see(snapshot(0, power_w=40, clock_s=0), snapshot(years, power_w=40, clock_s=1)) == []
    )
    assert book.see(snapshot(-years, power_w=40, clock_s=WAITING)) == ["raised power_w"]


def test_a_value_that_cannot_be_read_leaves_an_alert_as_it_is() -> None:
    book = Book()
    book.see(hot(0, 90))
    assert book.see(hot(1, None), hot(2, math.nan), hot(3, None)) == []
    assert book.alerts[0].value == 90
    assert book.see(hot(4, 70)) == ["cleared temperature_c"]
    assert book.see(snapshot(5, power_w=40), snapshot(6), snapshot(10, power_w=40)) == [
        "raised power_w"
    ]


def test_the_hottest_sensor_counts_of_those_that_can_be_read() -> None:
    book = Book()
    temperatures = {"broken": math.nan, "cpu": 86.0, "tj": 88.0, "gpu": 87.0}
    book.see(snapshot(0, temperatures_c=temperatures))
    assert "88.0 °C (tj)" in book.alerts[0].text


@pytest.mark.parametrize("rule", ["temperature_c", "power_w", "kv_used", "ttft_ms", "tpot_ms"])
def test_a_rule_that_is_off_raises_nothing(rule: str) -> None:
    answers = [answer(1, ttft_ms=1e4, tpot_ms=1e4)]
    windows = {name: Threshold(1, 0.5, window=1) for name in ("ttft_ms", "tpot_ms")}
    rules = {"kv_used": Threshold(0.85, 0.8), "power_w": Threshold(25, 20), **windows}
    rules["temperature_c"] = Threshold(85, 80)
    taken = snapshot(
        0, engine(line(0, answers=answers, kv=(9, 0, 1))), power_w=50, temperatures_c={"tj": 99.0}
    )
    assert len(Book(**rules).see(taken)) == 5
    seen = Book(**{**rules, rule: replace(rules[rule], enabled=False)}).see(taken)
    assert len(seen) == 4 and f"raised {rule}" not in seen


def test_occurrences_that_are_off_raise_nothing() -> None:
    off = Occurrence(1, enabled=False)
    book = Book(throttled=off, over_current=off)
    assert book.see(*(snapshot(n, throttled=("gpu",), over_current_events=n) for n in (0, 1))) == []


def test_throttling_is_an_alert_until_there_was_none_for_a_while() -> None:
    book = Book()
    assert book.see(snapshot(0, throttled=())) == []
    assert book.see(snapshot(1, throttled=("gpu", "cpu"))) == ["raised throttled"]
    assert book.alerts[0].text == "throttled: gpu, cpu"
    assert book.see(*(snapshot(n, throttled=()) for n in (2, 11))) == []
    assert book.alerts[0].text == "throttled: gpu, cpu, not now"
    assert book.see(snapshot(12, throttled=("gpu",))) == []
    assert book.alerts[0].text == "throttled: gpu"
    assert book.see(snapshot(13, throttled=())) == []
    assert book.see(snapshot(22.9, throttled=())) == []
    assert book.see(snapshot(23, throttled=())) == ["cleared throttled"]
    assert book.events[-1].alert.text == "throttled: nothing for 10 s"
    again = snapshot(40, throttled=("gpu",)), snapshot(41, throttled=())
    assert book.see(*again, snapshot(50, throttled=())) == ["raised throttled"]


def test_over_current_events_alert_when_their_count_rises_not_for_what_was() -> None:
    book = Book()
    assert book.see(*(snapshot(n, over_current_events=7) for n in range(3))) == []
    assert book.see(snapshot(3), snapshot(4, over_current_events=9)) == ["raised over_current"]
    alert = book.alerts[0]
    assert alert.value == 2
    assert alert.text == "over-current events: 2 more, 9 since the machine was started"
    assert book.see(snapshot(5, over_current_events=9), snapshot(64, over_current_events=9)) == []
    assert book.see(snapshot(65, over_current_events=0)) == ["cleared over_current"]
    assert book.events[-1].alert.value == 0


def slow(at_s: float, *names: str, ttft_ms: float = 900.0) -> Snapshot:
    lines = {name: line(at_s, answers=[answer(int(at_s) + 1, ttft_ms)]) for name in names}
    return snapshot(at_s, *(engine(values, name) for name, values in lines.items()))


def test_each_engine_has_alerts_of_its_own() -> None:
    book = Book(ttft_ms=Threshold(500, 450, window=1))
    book.see(slow(0, "7-0", "8-0"))
    assert [(alert.rule, alert.subject) for alert in book.alerts] == [
        ("ttft_ms", "7-0"),
        ("ttft_ms", "8-0"),
    ]
    assert book.alerts[0].text == "TTFT 900 ms, above 500 ms: a.gguf (7-0)"
    assert book.see(slow(1, "7-0", ttft_ms=100)) == ["cleared ttft_ms", "cleared ttft_ms"]
    gone, quick = book.events[-2:]
    assert (gone.alert.subject, gone.alert.text) == (
        "8-0",
        "TTFT: engine a.gguf (8-0) has ended",
    )
    assert quick.alert.subject == "7-0"
    assert quick.alert.text == "TTFT 100 ms, not above 450 ms: a.gguf (7-0)"


def test_an_alert_s_text_has_the_figure_first_then_its_limit_and_the_engine_last() -> None:
    book = Book(kv_used=Threshold(0.85, 0.8))
    answers = [answer(n, ttft_ms=664.2, tpot_ms=70.25) for n in range(1, 11)]
    reading = {"temperatures_c": {"tj": 92.0}, "power_w": 33.44}
    for at_s in (0, 5):
        book.see(snapshot(at_s, engine(line(at_s, answers=answers, kv=(9, 0, 1))), **reading))
    assert {alert.text for alert in book.alerts} == {
        "TTFT 664 ms, above 500 ms, mean of 10 answers: a.gguf (7-0)",
        "TPOT 70.2 ms, above 60 ms, mean of 10 answers: a.gguf (7-0)",
        "KV cache 90 % full, above 85 %: a.gguf (7-0)",
        "temperature 92.0 °C (tj), above 85 °C",
        "power 33.4 W, above 25 W",
    }
    book.see(snapshot(6))
    assert "KV cache: engine a.gguf (7-0) has ended" in {e.alert.text for e in book.events}


LOST = {"engine 7-0": "it was killed"}


def test_an_engine_that_is_lost_is_an_alert_until_it_was_no_problem_for_a_while() -> None:
    book = Book()
    there = (snapshot(n, engine(line(n))) for n in range(2))
    assert book.see(*there) == []
    book.problems = LOST
    assert book.see(snapshot(2), snapshot(3)) == ["raised engine_lost"]
    (alert,) = book.alerts
    assert (alert.subject, alert.text) == ("7-0", "engine 7-0: it was killed")
    book.problems = {"engine 7-0": "it hangs", "jtop": "not active"}
    assert book.see(snapshot(4)) == [] and book.alerts[0].text == "engine 7-0: it hangs"
    book.problems = {}
    assert book.see(snapshot(5), snapshot(64.9)) == [] and len(book.alerts) == 1
    assert book.see(snapshot(65)) == ["cleared engine_lost"] and book.alerts == ()
    assert book.events[-1].alert.text == "engine 7-0: no problem for 60 s"
    book.problems = LOST
    assert book.see(snapshot(66)) == ["raised engine_lost"]


def test_an_engine_that_answers_again_clears_its_alert_at_once() -> None:
    book = Book(engine_lost=Occurrence(60))
    book.problems = LOST | {"engine 8-0": "it hangs"}
    hung = engine(line(0), "8-0")
    assert book.see(snapshot(0, hung)) == ["raised engine_lost"] * 2
    book.problems = LOST
    assert book.see(snapshot(1, hung)) == ["cleared engine_lost"]
    assert book.events[-1].alert.text == "engine 8-0 answers again"
    assert [alert.subject for alert in book.alerts] == ["7-0"]


def test_lost_engines_are_no_alert_where_that_is_off() -> None:
    book = Book(engine_lost=Occurrence(60, enabled=False))
    book.problems = LOST
    assert book.see(snapshot(0), snapshot(1)) == []


def test_memory_that_is_full_is_an_alert() -> None:
    book = Book()
    full = (snapshot(n, ram_used_bytes=96, ram_total_bytes=100) for n in range(6))
    assert book.see(*full) == ["raised memory_used"]
    assert book.alerts[0].text == "memory 96 % used, above 95 %"
    assert book.see(snapshot(6, ram_used_bytes=91, ram_total_bytes=100)) == []
    assert book.see(snapshot(7, ram_used_bytes=1), snapshot(8, ram_total_bytes=0)) == []
    assert book.see(snapshot(9, ram_used_bytes=90, ram_total_bytes=100)) == ["cleared memory_used"]


def test_an_engine_that_is_gone_clears_its_alerts_also_when_it_comes_back() -> None:
    book = Book(ttft_ms=Threshold(500, 450, window=1))
    assert book.see(slow(0, "7-0"), slow(1), slow(2)) == ["raised ttft_ms", "cleared ttft_ms"]
    assert book.alerts == ()
    assert book.see(slow(3, "7-0")) == ["raised ttft_ms"]


def test_the_mean_of_ten_answers_is_what_counts() -> None:
    book = Book()
    answers = [answer(n, ttft_ms=600, tpot_ms=70) for n in range(1, 11)]
    assert book.see(snapshot(0, engine(line(0, answers=answers[:9])))) == []
    assert book.see(snapshot(1, engine(line(1, answers=answers)))) == [
        "raised ttft_ms",
        "raised tpot_ms",
    ]
    more = [answer(n, ttft_ms=100, tpot_ms=70) for n in range(11, 15)]
    assert book.see(snapshot(2, engine(line(2, answers=[*answers, *more])))) == ["cleared ttft_ms"]


def test_an_engine_that_was_idle_for_minutes_has_no_alert_of_its_last_answers() -> None:
    book = Book(ttft_ms=Threshold(500, 450, window=2))
    answers = [answer(1, ttft_ms=900), answer(2, ttft_ms=900)]
    idle = [snapshot(at_s, engine(line(at_s, answers=answers))) for at_s in (2, 301, 301.5, 302.5)]
    assert book.see(*idle[:3]) == ["raised ttft_ms"]
    assert book.see(idle[3]) == ["cleared ttft_ms"] and book.alerts == ()
    cleared = book.events[-1].alert
    assert (cleared.value, cleared.text) == (900, "TTFT: no answer for 5 min: a.gguf (7-0)")
    assert book.see(snapshot(303, engine(line(303, answers=answers)))) == []


def test_alerts_are_told_the_oldest_first() -> None:
    book = Book(power_w=Threshold(25, 20))
    book.see(snapshot(0, power_w=30), snapshot(1, power_w=30, temperatures_c={"tj": 90.0}))
    assert [alert.rule for alert in book.alerts] == ["power_w", "temperature_c"]


VALUES = st.none() | st.floats(0, 120) | st.sampled_from([80.0, 85.0, math.nan, math.inf])


@st.composite
def histories(draw: st.DrawFn) -> list[Snapshot]:
    """Snapshots at odd times of a machine and engines that come and go."""
    taken = []
    clock_s = 0.0
    for number in range(draw(st.integers(0, 25))):
        clock_s += draw(st.floats(0, 8))
        degrees, power = draw(VALUES), draw(VALUES)
        reading: dict[str, Any] = {"power_w": power}
        reading["temperatures_c"] = {} if degrees is None else {"tj": degrees}
        reading["throttled"] = draw(st.sampled_from([None, (), ("gpu",)]))
        reading["over_current_events"] = draw(st.none() | st.integers(0, 3))
        names = draw(st.sets(st.sampled_from(["7-0", "8-0"])))
        engines = []
        for name in sorted(names):
            used = draw(st.integers(0, 100))
            answers = [answer(number + 1, draw(st.floats(0, 1000)), draw(st.floats(0, 100)))]
            engines.append(engine(line(clock_s, answers=answers, kv=(used, 0, 100 - used)), name))
        at_s = draw(st.floats(-1e6, 1e6))
        taken.append(snapshot(at_s, *engines, clock_s=clock_s, **reading))
    return taken


@given(
    histories(),
    st.lists(
        st.dictionaries(st.sampled_from(["engine 7-0", "engine 9-0", "jtop"]), st.text()),
        min_size=25,
        max_size=25,
    ),
    st.sampled_from([0.0, 5.0]),
    st.sampled_from([0.0, 5.0]),
)
def test_raised_and_cleared_alternate_for_each_rule_and_subject(
    taken: list[Snapshot], problems: list[dict[str, str]], for_s: float, quiet_s: float
) -> None:
    book = Book(
        temperature_c=Threshold(85, 80, for_s=for_s),
        power_w=Threshold(25, 23, for_s=for_s),
        ttft_ms=Threshold(500, 450, for_s=for_s, window=1),
        tpot_ms=Threshold(60, 54, window=1),
        throttled=Occurrence(quiet_s),
        engine_lost=Occurrence(quiet_s),
    )
    up: dict[tuple[str, str], Alert] = {}
    seen = 0
    for one, lost in zip(taken, problems, strict=False):
        book.problems = lost
        book.see(one)
        for event in book.events[seen:]:
            key = event.alert.rule, event.alert.subject
            assert (event.kind == "raised") != (key in up)
            if event.kind == "raised":
                up[key] = event.alert
                assert event.alert.value > event.alert.threshold
            else:
                assert up.pop(key).since_ms == event.alert.since_ms
            assert math.isfinite(event.alert.value) and event.at_ms == one.at_ms
        seen = len(book.events)
        assert {(alert.rule, alert.subject) for alert in book.alerts} == set(up)
        names = {"", *(sample.name for sample in one.engines)}
        assert {subject for rule, subject in up if rule != "engine_lost"} <= names


@given(st.lists(st.floats(80, 85, exclude_min=True)), st.booleans())
def test_no_value_between_the_limits_changes_anything(values: list[float], is_up: bool) -> None:
    book = Book()
    book.see(hot(0, 86 if is_up else 20))
    assert book.see(*(hot(n + 1, value) for n, value in enumerate(values))) == []
    assert len(book.alerts) == is_up
