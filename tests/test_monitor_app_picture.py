"""What the live view shows of a state, in terminals of all sizes."""

from __future__ import annotations

import pickle

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
)

from orin_llm.cli.live.glyphs import ASCII, BLOCKS, Glyphs
from orin_llm.cli.live.history import CAPACITY
from orin_llm.cli.live.layout import Scene, picture
from orin_llm.cli.live.story import MAX_EVENTS, Story
from orin_llm.device.reading import Core
from orin_llm.monitor.snapshot import Subject
from orin_llm.monitor.state import AlertEvent
from orin_llm.monitor.thresholds import default_thresholds

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
