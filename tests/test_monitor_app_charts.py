"""Bars, sparklines, charts, their history, numbers and lines of the live view."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_view import text_of

from orin_llm.cli.live.charts import Mark, bar, chart, sparkline
from orin_llm.cli.live.glyphs import ASCII, BLOCKS, Glyphs, glyphs_for
from orin_llm.cli.live.history import CAPACITY, History
from orin_llm.cli.live.text import Span, fitted, joined, line_width, spread, wrapped
from orin_llm.cli.numbers import amount, clock, duration, sizes, whole

NUMBERS = st.floats(-1e308, 1e308)
SETS = pytest.mark.parametrize("glyphs", [BLOCKS, ASCII], ids=["blocks", "ascii"])


def written(part: float | None, width: int, glyphs: Glyphs, *marks: Mark) -> str:
    return text_of([bar(part, width, "good", marks, glyphs)], glyphs)


def test_a_bar_is_as_long_as_its_part() -> None:
    assert written(0.5, 4, BLOCKS) == "██··"
    assert written(0.3, 4, BLOCKS) == "█▎··"
    assert written(0.5, 4, ASCII) == "##.."
    assert written(1.0, 4, BLOCKS) == "████"


def test_what_is_not_known_or_beyond_the_bar_does_not_break_it() -> None:
    assert written(None, 4, BLOCKS) == "····"
    assert written(7.0, 4, BLOCKS) == "████"
    assert written(-7.0, 4, BLOCKS) == "····"


def test_a_mark_is_seen_until_the_bar_reaches_it() -> None:
    assert written(0.25, 4, BLOCKS, Mark(0.75, "warn")) == "█··│"
    assert written(1.0, 4, BLOCKS, Mark(0.75, "warn")) == "████"
    assert written(0.0, 4, BLOCKS, Mark(1.0, "warn")) == "···│"


def test_a_sparkline_tells_zero_from_missing() -> None:
    line = sparkline([0.0, None, 0.5, 1.0], 1.0, 6, "graph", BLOCKS)
    assert text_of([line]) == "  ▁ ▄█"


def test_a_chart_stacks_whole_cells() -> None:
    rows = chart([0.25, 0.75, 1.0, None], 1.0, 4, 2, "graph", BLOCKS)
    assert text_of(rows) == " ▄█ \n▄██ "


def test_a_chart_shows_the_newest_values() -> None:
    assert text_of(chart([1.0, 0.0, 0.0], 1.0, 2, 1, "graph", BLOCKS)) == "▁▁"


@SETS
@given(
    values=st.lists(st.none() | NUMBERS, max_size=30),
    top=NUMBERS,
    width=st.integers(0, 20),
    height=st.integers(0, 4),
)
def test_every_chart_fills_its_place(
    glyphs: Glyphs, values: list[float | None], top: float, width: int, height: int
) -> None:
    rows = chart(values, top, width, height, "graph", glyphs)
    assert [line_width(row) for row in rows] == [width] * height


@SETS
@given(part=st.none() | NUMBERS, width=st.integers(1, 40), mark=st.floats(0, 2))
def test_every_bar_fills_its_place(
    glyphs: Glyphs, part: float | None, width: int, mark: float
) -> None:
    assert line_width(bar(part, width, "good", [Mark(mark, "bad")], glyphs)) == width


def history_of(values: list[float | None], interval_s: float = 1.0) -> History:
    history = History(interval_s)
    for value in values:
        history.add({"a": value})
    return history


def test_history_gives_the_newest_values_of_a_wide_graph() -> None:
    assert history_of([1.0, 2.0, 3.0]).columns("a", 120) == [1.0, 2.0, 3.0]
    assert history_of([float(n) for n in range(150)]).columns("a", 120)[-2:] == [148.0, 149.0]


def test_a_narrow_graph_has_means_over_two_minutes() -> None:
    columns = history_of([0.0, 10.0] * 60).columns("a", 12)
    assert columns == [5.0] * 12


def test_what_is_missing_is_no_part_of_a_mean() -> None:
    assert history_of([None, 4.0, None, None]).columns("a", 60) == [4.0, None]


def test_a_graph_moves_by_whole_columns() -> None:
    history = history_of([float(n) for n in range(120)])
    before = history.columns("a", 12)
    history.add({"a": 120.0})
    assert history.columns("a", 12)[:-1] == before[1:]


def test_a_long_past_is_forgotten_without_moving_the_columns() -> None:
    history = history_of([float(n) for n in range(CAPACITY + 7)], interval_s=0.1)
    columns = history.columns("a", 120)
    assert columns[-2] == sum(range(1190, 1200)) / 10
    assert len(columns) <= 120


def test_a_figure_that_is_gone_is_forgotten() -> None:
    history = history_of([1.0])
    history.add({"b": 2.0})
    assert history.columns("a", 10) == []
    history.add({"a": 3.0, "b": 2.0})
    assert history.columns("a", 120) == [3.0]


def test_numbers_have_three_digits_or_more() -> None:
    assert [amount(x, "ms") for x in (8.254, 41.23, 99.96, 1300.4, 0.0)] == [
        "8.25 ms",
        "41.2 ms",
        "100 ms",
        "1300 ms",
        "0 ms",
    ]
    assert whole(91.6, "%") == "92 %"


def test_sizes_share_the_unit_of_the_larger_one() -> None:
    assert sizes(412e6, 1.024e9) == "0.41 of 1.02 GB"
    assert sizes(16.5e9, 65.9e9) == "16.5 of 65.9 GB"
    assert sizes(None, 65.9e9) == "– of 65.9 GB"
    assert sizes(512, None) == "512 B"


def test_durations_are_short() -> None:
    assert [duration(x * 1e3) for x in (0.4, 59, 60, 3900, 200_000)] == [
        "0 s",
        "59 s",
        "1 min",
        "1 h 5 min",
        "2 d 7 h",
    ]


@given(NUMBERS)
def test_any_time_can_be_told(at_ms: float) -> None:
    assert clock(at_ms)


def test_a_line_that_is_too_long_is_cut_between_cells() -> None:
    assert text_of([fitted((Span("abc"), Span("def")), 4)]) == "abc…"
    assert text_of([fitted((Span("漢字"),), 3)]) == "漢…"
    assert text_of([fitted((Span("ab"),), 4)]) == "ab  "


@given(st.lists(st.text(max_size=8), max_size=5), st.integers(0, 30))
def test_a_fitted_line_has_the_width(texts: list[str], width: int) -> None:
    line = tuple(Span("".join(c for c in text if c.isprintable())) for text in texts)
    assert line_width(fitted(line, width)) == width


def test_phrases_are_left_out_whole() -> None:
    phrases = [Span("one"), Span("two"), Span("three")]
    line, count = joined(phrases, 9)
    assert (text_of([line]), count) == ("one · two", 2)
    assert text_of(wrapped(phrases, 9)) == "one · two\nthree"


def test_the_left_side_gives_way_to_the_right_one() -> None:
    assert text_of([spread((Span("left"),), (Span("right"),), 8)]) == "le…right"
    assert text_of([spread((Span("left"),), (Span("right"),), 5)]) == "right"


def test_glyphs_follow_the_terminal_and_the_locale() -> None:
    assert glyphs_for({"LANG": "en_US.UTF-8", "TERM": "xterm"}) is BLOCKS
    assert glyphs_for({"LC_CTYPE": "UTF-8", "LANG": "C"}) is BLOCKS
    assert glyphs_for({"LANG": "en_US.utf8", "LC_ALL": "C"}) is ASCII
    assert glyphs_for({"LANG": "en_US.ISO-8859-1"}) is ASCII
    assert glyphs_for({"LANG": "C"}) is ASCII
    assert glyphs_for({}) is ASCII
    assert glyphs_for({"LANG": "en_US.UTF-8", "TERM": "linux"}) is ASCII


@given(st.text())
def test_plain_text_is_ascii_and_as_wide(text: str) -> None:
    printable = "".join(sign for sign in text if sign.isprintable())
    plain = ASCII.written(printable)
    assert plain.isascii()
    assert line_width((Span(plain),)) == line_width((Span(printable),))


def test_values_whose_sum_is_no_number_have_a_graph() -> None:
    history = History(1.0)
    for value in (17 * 10**307, 17 * 10**307, 1.7e308, 1.0):
        history.add({"a": value})
    values = history.columns("a", 1)
    assert chart([float("nan"), *values], float("inf"), 3, 2, "plain", BLOCKS)
    assert bar(float("nan"), 10, "plain", (), BLOCKS)


def test_an_interval_of_almost_nothing_has_a_graph() -> None:
    history = History(5e-324)
    history.add({"a": 3.0})
    assert history.columns("a", 10) == [3.0]
