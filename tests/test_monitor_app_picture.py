"""What the live view shows of a state, in terminals of all sizes."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_view import (
    BUSY,
    ORIN,
    PC,
    START_MS,
    alert,
    engine,
    row_of,
    shown,
    state,
    story_of,
    text_of,
    tone_of,
)

from orin_llm.cli.live.frame import Playing, footer, header
from orin_llm.cli.live.glyphs import ASCII, BLOCKS, Glyphs
from orin_llm.cli.live.history import CAPACITY
from orin_llm.cli.live.layout import Scene, picture
from orin_llm.cli.live.story import MAX_EVENTS, Story
from orin_llm.device.reading import Core
from orin_llm.monitor.snapshot import Subject
from orin_llm.monitor.state import AlertEvent, State
from orin_llm.monitor.thresholds import Threshold, Thresholds, default_thresholds

SIZES = pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40), (200, 24), (200, 60)])


@SIZES
def test_every_size_shows_what_matters_with_its_unit(size: tuple[int, int]) -> None:
    text = shown(state(0, engine(), **BUSY), size=size)
    for fact in (
        "92 %", "612 MHz", "84 %", "172 of 205 GB/s", "31.0 W", "of 30 W", "56.0 °C", "tj",
        "25 %", "16.5 of 65.9 GB", "50 %", "2 of 3 cores", "a.gguf", "3 of 8", "2 waiting",
        "1234 tok/s", "41.2 tok/s", "step 24.3 ms", "231 ms", "last 210 ms", "25.5 ms",
        "last 26.1 ms", "43 %",
    ):  # fmt: skip
        assert fact in text, fact


@SIZES
@pytest.mark.parametrize("engines", [0, 1, 3])
def test_nothing_is_lost_below_the_last_line(size: tuple[int, int], engines: int) -> None:
    alerts = tuple(alert(f"rule_{n}", f"alert {n}") for n in range(9))
    one = state(0, *(engine(f"{n}-0") for n in range(engines)), **BUSY, alerts=alerts)
    assert len(shown(one, size=size).split("\n")) <= size[1]


def test_a_large_terminal_shows_everything() -> None:
    text = shown(state(0, engine(), **BUSY), size=(200, 60))
    for fact in (
        "3199 MHz", "GPU_SOC 18.0 W", "CPU_CV 5.0 W", "SYS_5V0 8.0 W", "cpu 55.5", "gpu 53.2",
        "GPU 4.29 GB", "swap 0.0 of 32.9 GB", "1728 MHz", "█▁·", "limit 500 ms", "limit 60 ms",
        "mean of 10", "17 answers", "1374 of 3200 pages", "0.41 of 1.02 GB", "hits 99.8 %",
        "limit 85 °C", "not throttled", "over-current events since the start: 3", "none so far",
    ):  # fmt: skip
        assert fact in text, fact


@SIZES
def test_what_could_not_be_read_is_a_dash_and_never_zero(size: tuple[int, int]) -> None:
    nothing = engine(
        ttft_ms=None, tpot_ms=None, last_ttft_ms=None, last_tpot_ms=None, kv_used=None,
        kv_pages_used=None, kv_bytes_used=None, hit_rate=None, decode_tokens_per_s=None,
        window_answers=1, tpot_window_answers=1, prefill_tokens_per_s=None, step_ms=None,
        running=1, waiting=1, answers=1,
    )  # fmt: skip
    text = shown(state(0, nothing), size=size, subject=Subject("board", "36.4.3", "6.2"))
    assert "–" in text
    assert not set("0") & set(text.replace("500", "").replace("60 ms", "").replace("10", ""))


def test_what_was_read_before_is_missing_now() -> None:
    text = shown(state(0, **BUSY), state(1, sources=("procfs",)), size=(60, 16))
    for label in ("GPU", "EMC", "Power", "Temp", "Memory", "CPU"):
        assert row_of(text, label).split()[1] == "–"
    assert "needs root" not in text


def test_a_memory_clock_that_was_never_read_says_what_it_needs() -> None:
    changes = {**BUSY, "emc_percent": None, "emc_mhz": None, "bandwidth_gb_s": None}
    text = shown(state(0, **changes), size=(60, 16))
    assert "–" in row_of(text, "EMC")
    assert "needs root or jtop" in row_of(text, "EMC")


def test_a_pc_shows_only_what_it_has() -> None:
    text = shown(
        state(0, cpu_percent=35.0, ram_used_bytes=8_400_000_000, ram_total_bytes=16_800_000_000),
        subject=PC,
    )
    assert "35 %" in text
    assert "8.4 of 16.8 GB" in text
    for absent in ("GPU", "EMC", "Power", "Temp", "–", "throttled"):
        assert absent not in text


def test_a_graphics_card_brings_its_own_memory() -> None:
    text = shown(
        state(
            0,
            gpu_percent=77.0,
            gpu_memory_used_bytes=9_400_000_000,
            gpu_memory_total_bytes=25_800_000_000,
            ram_used_bytes=1,
            ram_total_bytes=2,
        ),
        subject=PC,
        size=(60, 16),
    )
    assert "9.4 of 25.8 GB" in row_of(text, "GPU mem")
    assert "77 %" in row_of(text, "GPU  ")
    assert "GPU 9.4" not in row_of(text, "Memory")


def test_no_engine_says_how_to_start_one() -> None:
    text = shown(state(0, **BUSY), size=(60, 16))
    assert "No engine runs. Start one in another terminal: orin-llm chat" in text
    assert "TTFT" not in text


def test_a_recording_without_engine_says_so() -> None:
    scene = Scene(ORIN, default_thresholds(30), BLOCKS, is_replay=True)
    text = text_of(picture(scene, story_of([state(0, **BUSY)]), "", 60, 16))
    assert "No engine in the recording at this time." in text
    assert "Start one" not in text


def test_a_step_that_takes_long_is_no_standstill() -> None:
    text = shown(state(0, engine(is_computing=True, prefill_tokens_per_s=0.0)), size=(60, 16))
    assert row_of(text, "Prefill").split()[:2] == ["Prefill", "computing"]
    assert "computing" in row_of(text, "Decode")


def test_the_chosen_engine_is_shown_large_among_all() -> None:
    engines = [engine(f"{n}-0", decode_tokens_per_s=float(n)) for n in (11, 22, 33)]
    text = shown(state(0, *engines, **BUSY), chosen="22-0")
    assert "Engine 2 of 3 a.gguf pid 22" in text
    assert "22.0 tok/s" in row_of(text, "Decode")
    assert "▸" in next(line for line in text.split("\n") if "pid 22 " in line and "% KV" in line)
    for pid in (11, 22, 33):
        assert f"pid {pid}" in text


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)])
def test_before_there_are_enough_answers_it_says_how_many_there_are(size: tuple[int, int]) -> None:
    few = engine(ttft_ms=None, tpot_ms=None, window_answers=3, tpot_window_answers=2)
    text = shown(state(0, few), state(1, few), size=size)
    assert "3 of 10 answers" in text and "2 of 10 answers" in text
    assert "mean of 10" not in text
    if size[1] < 40:
        assert row_of(text, "TTFT").rstrip().endswith(("answers", "ms")) and "▂" not in text
    assert "of 10 answers" not in shown(state(0, engine()), size=size)


def test_of_very_many_engines_those_around_the_chosen_one_are_listed() -> None:
    engines = [engine(f"{n}-0") for n in range(100, 140)]
    text = shown(state(0, *engines, **BUSY), chosen="139-0", size=(80, 30))
    assert "Engine 40 of 40" in text
    assert "pid 134 " in text
    assert "pid 139 " in text
    assert "pid 133 " not in text


def test_an_engine_that_is_gone_leaves_the_first_one() -> None:
    assert "Engine 1 of 2" in shown(state(0, engine("7-0"), engine("8-0")), chosen="9-0")


def lines_with(one: State, size: tuple[int, int] = (80, 24), **thresholds: Threshold) -> list:  # type: ignore[type-arg]
    scene = Scene(ORIN, Thresholds(**thresholds) if thresholds else default_thresholds(30), BLOCKS)
    return picture(scene, story_of([one]), "", *size)


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


def test_where_there_is_no_room_what_matters_less_goes_first() -> None:
    alerts = (alert("power_w", "power 31.0 W, above 30"),)
    one = state(0, engine(), **BUSY, alerts=alerts, problems={"jtop": "not active"})
    everything = shown(one, size=(60, 18))
    assert "jtop" in everything
    assert "CPU" in everything
    less = shown(one, size=(60, 14))
    assert not any(word in less for word in ("jtop", "CPU", "throttled"))
    assert row_of(less, "Prefill")
    least = shown(one, size=(60, 5)).split("\n")
    assert [line.split()[0] for line in least] == (
        ["●", "─", "GPU", "EMC", "Power", "Temp", "Memory", "─", "Decode", "TTFT", "TPOT", "KV"]
    )


@pytest.mark.parametrize(
    ("size", "boxes"), [((60, 16), 0), ((80, 24), 0), ((80, 46), 0), ((80, 48), 1), ((120, 38), 1)]
)
def test_nothing_but_the_size_decides_between_boxes_and_lines(
    size: tuple[int, int], boxes: bool
) -> None:
    alerts = tuple(alert(f"rule_{n}", f"alert {n}") for n in range(9))
    events = tuple(AlertEvent("raised", START_MS, one) for one in alerts)
    crowd = [engine(f"{n}-0") for n in range(9)]
    vram = {"gpu_memory_total_bytes": 25_800_000_000}
    pictures = (
        shown(state(0, cpu_percent=5.0), size=size, subject=PC),
        shown(state(0, **BUSY), size=size),
        shown(
            state(0, *crowd, **BUSY | vram, alerts=alerts, events=events, problems={"a": "b"}),
            size=size,
        ),
    )
    for text in pictures:
        assert ("╭─ CPU" in text) == bool(boxes)
        assert len(text.split("\n")) <= size[1]


def test_tiles_are_as_high_as_they_are_meant_to_be() -> None:
    story = story_of([state(0, engine(), **BUSY)])
    scene = Scene(ORIN, default_thresholds(30), BLOCKS)
    lines = text_of(picture(scene, story, "", 120, 40)).split("\n")
    tops = [n for n, line in enumerate(lines) if line.startswith("╭")]
    ends = [n for n, line in enumerate(lines) if line.startswith("╰")]
    assert [end - top + 1 for top, end in zip(tops, ends, strict=True)] == [8] * 4


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


def test_control_characters_of_a_model_never_reach_the_terminal() -> None:
    evil = engine()
    evil = type(evil)(**{**evil.to_json(), "model": "/m/a\x1b[2J\nb.gguf"})
    text = shown(state(0, evil, engine("8-0"), **BUSY))
    assert "\x1b" not in text
    assert "a[2Jb.gguf" in text


def test_the_header_keeps_the_name_and_the_time_longest() -> None:
    one = state(0, **BUSY)
    wide = text_of([header(ORIN, one, Playing(), 120)])
    assert wide.startswith("Jetson AGX Orin Developer Kit · mode 30W · JetPack 6.2 · tegrastats+")
    assert "L4T 36.4.3" in wide
    narrow = text_of([header(ORIN, one, Playing(), 60)])
    assert narrow.startswith("Jetson AGX Orin Developer Kit · mode 30W ")
    assert wide[-8:] == narrow[-8:]
    assert len(narrow) == 60
    assert text_of([header(ORIN, one, Playing(), 20)]).startswith("Jetson AG…")


def test_the_header_has_the_host_before_what_can_be_spared() -> None:
    named = replace(ORIN, host="robot-7.example.org")
    wide = text_of([header(named, state(0, **BUSY), Playing(), 120)])
    assert wide.startswith("Jetson AGX Orin Developer Kit · robot-7 · mode 30W · JetPack 6.2 · ")
    narrow = text_of([header(named, state(0, **BUSY), Playing(), 52)])
    assert "· robot-7 " in narrow and "mode" not in narrow


def test_the_header_of_a_replay_tells_speed_date_and_end() -> None:
    one = state(0, **BUSY)
    assert "replay ×4  2027-01-" in text_of([header(ORIN, one, Playing(4.0), 120)])
    assert " ended  " in text_of([header(ORIN, one, Playing(4.0, is_over=True), 60)])
    ended = text_of([header(ORIN, one, Playing(4.0, is_over=True), 120)])
    assert "ended  recorded 2027-01-" in ended
    paused = text_of([header(ORIN, one, Playing(0.5, is_paused=True), 120)])
    assert " PAUSED   replay ×0.5" in paused


def test_the_footer_names_keys_that_do_something() -> None:
    assert text_of([footer(Playing(), 1, 0, 60)]).split() == [
        "q",
        "quit",
        "?",
        "help",
        "p",
        "pause",
    ]
    text = text_of([footer(Playing(1.0, is_paused=True), 3, 4, 80)])
    assert "p resume  Tab next engine  PgDn 4 more lines" in text
    assert "pause" not in text_of([footer(Playing(1.0, is_over=True), 1, 0, 60)])


def test_before_the_first_reading_it_says_so() -> None:
    assert "waiting for the first reading" in shown(size=(60, 16))


def test_what_is_remembered_stays_bounded() -> None:
    event = AlertEvent("raised", START_MS, alert("power_w", "power"))
    story = Story(1.0)
    sizes = []
    for n in range(3 * CAPACITY):
        # Each engine runs for a while, and others come after it.
        story.add(state(0, engine(f"{1000 + n // 100}-0"), **BUSY, events=(event,)))
        if n + 1 in (2 * CAPACITY, 3 * CAPACITY):
            sizes.append(len(pickle.dumps(story)))
    assert len(story.events) == MAX_EVENTS
    assert abs(sizes[1] - sizes[0]) < 0.01 * sizes[0]


FLOATS = st.none() | st.floats(-1e300, 1e300)
COUNTS = st.none() | st.integers(-(10**18), 10**18)
READINGS = st.fixed_dictionaries(
    {},
    optional={
        "cpu_percent": FLOATS,
        "gpu_percent": FLOATS,
        "gpu_mhz": FLOATS,
        "emc_percent": FLOATS,
        "bandwidth_gb_s": FLOATS,
        "ram_used_bytes": COUNTS,
        "ram_total_bytes": COUNTS,
        "swap_used_bytes": COUNTS,
        "gpu_memory_total_bytes": COUNTS,
        "power_w": FLOATS,
        "temperatures_c": st.dictionaries(st.text(max_size=9), st.floats(-1e300, 1e300)),
        "rails_w": st.dictionaries(st.text(max_size=9), st.floats(-1e300, 1e300), max_size=5),
        "cores": st.lists(st.builds(Core, st.booleans(), FLOATS, FLOATS), max_size=99).map(tuple),
        "throttled": st.none() | st.lists(st.text(max_size=5), max_size=9).map(tuple),
        "problems": st.dictionaries(st.text(max_size=9), st.text(max_size=99), max_size=3),
    },
)
ENGINES = st.builds(
    engine,
    st.integers(1, 10**7).map(lambda pid: f"{pid}-0"),
    decode_tokens_per_s=FLOATS,
    ttft_ms=FLOATS,
    kv_used=FLOATS,
    kv_bytes_used=COUNTS,
    running=st.integers(0, 10**12),
    max_running=st.integers(0, 10**12),
)


@settings(max_examples=200)
@given(
    readings=st.lists(READINGS, min_size=1, max_size=3),
    engines=st.lists(ENGINES, max_size=4),
    size=st.tuples(st.integers(1, 220), st.integers(1, 70)),
    glyphs=st.sampled_from([BLOCKS, ASCII]),
    subject=st.sampled_from([ORIN, PC]),
)
def test_any_state_fills_lines_of_any_terminal(
    readings: list[dict[str, object]],
    engines: list,  # type: ignore[type-arg]
    size: tuple[int, int],
    glyphs: Glyphs,
    subject: Subject,
) -> None:
    text = shown(
        *(state(n, *engines, **reading) for n, reading in enumerate(readings)),
        size=size,
        glyphs=glyphs,
        subject=subject,
    )
    assert all(sign.isprintable() for line in text.split("\n") for sign in line)
    assert glyphs is BLOCKS or text.isascii()
