"""The live view's first and last line."""

from __future__ import annotations

from dataclasses import replace

from live_view import BUSY, ORIN, state, text_of

from orin_llm.cli.live.frame import Playing, footer, header


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
