"""Alerts, limits and problems in the live view: what is told where, and in which colour."""

from __future__ import annotations

import pytest
from live_view import (
    BUSY,
    START_MS,
    alert,
    engine,
    lines_with,
    row_of,
    shown,
    state,
    text_of,
    tone_of,
)

from orin_llm.monitor.state import AlertEvent
from orin_llm.monitor.thresholds import Threshold

ALERTS = {
    "temperature_c": ("temperature 91.5 °C (tj), above 85 °C", "", "56.0 °C"),
    "power_w": ("power 31.0 W, above 30 W", "", "31.0 W"),
    "kv_used": ("KV cache 43 % full, above 40 %: a.gguf (7-0)", "7-0", "43 %"),
    "ttft_ms": ("TTFT 231 ms, above 200 ms: a.gguf (7-0)", "7-0", "231 ms"),
    "tpot_ms": ("TPOT 25.5 ms, above 20 ms: a.gguf (7-0)", "7-0", "25.5 ms"),
}


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.parametrize("rule", ALERTS)
def test_an_alert_is_on_top_and_its_figure_is_red(rule: str, size: tuple[int, int]) -> None:
    text, subject, figure = ALERTS[rule]
    lines = lines_with(state(0, engine(), **BUSY, alerts=(alert(rule, text, subject),)), size)
    assert text in text_of(lines[:1])
    assert "  for 1 min " in text_of(lines[:1])
    assert size == (80, 24) or " · since " in text_of(lines[:1])
    assert tone_of(lines[:1], text) == "bad"
    assert tone_of(lines[1:], figure) == "bad"
    others = {figure for other, (_, _, figure) in ALERTS.items() if other != rule}
    assert all(tone_of(lines[1:], other) in ("strong", "warn") for other in others)


def test_who_sees_no_colours_sees_a_sign_before_what_is_too_high() -> None:
    alerts = (alert("kv_used", "KV cache 90 % full", "8-0"), alert("power_w", "power 31.0 W"))
    one = state(0, engine(), engine("8-0", kv_used=0.9), engine("9-0"), **BUSY, alerts=alerts)
    text = shown(one, size=(80, 26), chosen="8-0")
    assert "!31.0 W" in row_of(text, "Power") and "!90 %" in row_of(text, "KV")
    seven, eight, nine = (row for row in text.split("\n") if "% KV" in row)
    assert eight.startswith("▸! ") and "!90 % KV" in eight
    assert "!" not in seven + nine + row_of(text, "Temp")


def test_an_alert_of_another_engine_colours_nothing_here() -> None:
    one = state(0, engine(), **BUSY, alerts=(alert("ttft_ms", "TTFT 900 ms: b.gguf (8-0)", "8-0"),))
    assert tone_of(lines_with(one)[1:], "231 ms") == "strong"


def test_a_figure_near_its_limit_is_yellow() -> None:
    lines = lines_with(state(0, engine(tpot_ms=55.0), **BUSY | {"power_w": 26.0}))
    assert tone_of(lines, "55.0 ms") == "warn"
    assert tone_of(lines, "26.0 W") == "strong"
    assert tone_of(lines_with(state(0, **BUSY | {"power_w": 27.0})), "27.0 W") == "warn"


def test_memory_has_a_limit_and_is_red_with_its_alert() -> None:
    full = BUSY | {"ram_used_bytes": 64_000_000_000}
    assert tone_of(lines_with(state(0, **full)), "97 %") == "warn"
    raised = state(0, **full, alerts=(alert("memory_used", "memory full"),))
    assert tone_of(lines_with(raised), "97 %") == "bad"
    assert "│" in row_of(shown(state(0, **BUSY), size=(60, 16)), "Memory")


def test_the_temperature_at_which_a_jetson_throttles_is_red_without_an_alert() -> None:
    lines = lines_with(state(0, **BUSY | {"temperatures_c": {"tj": 99.0}}))
    assert tone_of(lines, "99.0 °C") == "bad"


def test_a_rule_that_is_switched_off_has_no_limit() -> None:
    off = Threshold(500.0, 450.0, window=10, enabled=False)
    lines = lines_with(state(0, engine(ttft_ms=900.0), **BUSY), ttft_ms=off)
    assert tone_of(lines, "900 ms") == "strong"
    assert "limit 500" not in text_of(lines)
    assert "·····" not in row_of(text_of(lines), "TTFT")


def test_throttling_is_seen_with_its_alert_and_without() -> None:
    changes = BUSY | {"throttled": ("cpu", "gpu")}
    assert tone_of(lines_with(state(0, **changes)), "THROTTLED: cpu, gpu") == "alarm"
    raised = (alert("throttled", "throttled: cpu, gpu"),)
    lines = lines_with(state(0, **changes, alerts=raised))
    assert tone_of(lines, "throttled: cpu, gpu") == "alarm"
    assert "THROTTLED" not in text_of(lines)


def test_many_alerts_are_counted_and_those_of_the_machine_come_first() -> None:
    alerts = [alert(f"rule_{n}", f"alert {n}") for n in range(9)]
    alerts.append(alert("temperature_c", "temperature 91.5 °C (tj), above 85"))
    lines = text_of(lines_with(state(0, **BUSY, alerts=tuple(alerts)))).split("\n")
    assert "temperature" in lines[0]
    assert lines[3].startswith("● and 7 more")


def test_a_narrow_terminal_shortens_an_alert_between_its_words() -> None:
    model = "a-model-with-a-very-long-name-" * 3
    alerts = (
        alert("ttft_ms", f"TTFT 664 ms, above 500 ms, mean of 10 answers: {model} (7-0)", "7-0"),
        alert("kv_used", f"KV cache 90 % full, above 85 %: {model} (7-0)", "7-0"),
        alert("over_current", "over-current events: 3 more, 6 since the machine was started"),
    )
    text = shown(state(0, engine(), **BUSY, alerts=alerts), size=(60, 16))
    assert "TTFT 664 ms, above 500 ms, mean of 10 answers (7-0)" in text
    assert "KV cache 90 % full, above 85 % (7-0)" in text
    assert "● over-current events: 3 more  for 1 min" in text
    less = shown(state(0, engine(), **BUSY, alerts=alerts), size=(40, 16))
    assert "TTFT 664 ms, above 500 ms (7-0)" in less


def test_events_are_told_the_newest_first() -> None:
    raised = alert("power_w", "power 33.0 W, above 30")
    cleared = alert("power_w", "power 28.0 W, not above 28.5")
    first = state(0, **BUSY, events=(AlertEvent("raised", START_MS, raised),))
    second = state(5, **BUSY, events=(AlertEvent("cleared", START_MS + 5000, cleared),))
    lines = shown(first, second).split("\n")
    at = next(n for n, line in enumerate(lines) if "Alerts" in line)
    assert "cleared power 28.0 W" in lines[at + 1]
    assert "raised  power 33.0 W" in lines[at + 2]


def test_problems_of_sources_are_one_dim_line() -> None:
    problems = {"tegrastats": "it ended\nand will be started again", "jtop": "not active"}
    lines = lines_with(state(0, **BUSY, problems=problems))
    assert text_of(lines[:1]).startswith("tegrastats: it ended and will be started again · jtop: ")
    assert tone_of(lines[:1], "it ended") == "dim"


def test_a_problem_that_is_an_alert_is_told_once() -> None:
    lost = "engine 9-0: it was killed"
    problems = {"engine 9-0": "it was killed", "jtop": "not active"}
    raised = state(0, **BUSY, problems=problems, alerts=(alert("engine_lost", lost, "9-0"),))
    text = shown(raised)
    assert text.count(lost) == 1 and "\njtop: not active" in text
