"""What the live view shows of engines: which one is large, what it lacks, who else runs."""

from __future__ import annotations

import pytest
from live_view import (
    BUSY,
    ORIN,
    engine,
    row_of,
    shown,
    state,
    story_of,
    text_of,
)

from orin_llm.cli.live.glyphs import BLOCKS
from orin_llm.cli.live.layout import Scene, picture
from orin_llm.monitor.thresholds import default_thresholds


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


def test_control_characters_of_a_model_never_reach_the_terminal() -> None:
    evil = engine()
    evil = type(evil)(**{**evil.to_json(), "model": "/m/a\x1b[2J\nb.gguf"})
    text = shown(state(0, evil, engine("8-0"), **BUSY))
    assert "\x1b" not in text
    assert "a[2Jb.gguf" in text
