"""Figures in one line each: label, value, bar, what else there is to say, graph."""

from __future__ import annotations

from orin_llm.cli.live.charts import bar, sparkline
from orin_llm.cli.live.glyphs import Glyphs
from orin_llm.cli.live.history import History
from orin_llm.cli.live.measure import Measure
from orin_llm.cli.live.text import Line, Span, fitted, joined, line_width

_LABEL, _VALUE = 8, 10
_NARROW = 50  # cells below which there are no graphs


def measure_row(measure: Measure, history: History, width: int, glyphs: Glyphs) -> Line:
    """Of exactly `width` cells; the graph and the bar get shorter in narrow ones."""
    bar_width = min(max(width // 6, 10), 30)
    graph_width = min(max(width // 4 - 2, 10), 60) if width >= _NARROW else 0
    values = history.columns(measure.key, graph_width)
    if all(value is None for value in values):
        graph_width = 0
    value = measure.value_span
    line: Line = (
        Span(f"{measure.label:<{_LABEL}}"),
        Span(f"{value.text:>{_VALUE}} ", value.tone),
    )
    if measure.has_bar:
        line += (*bar(measure.part, bar_width, measure.tone, measure.marks, glyphs), Span(" "))
    room = width - line_width(line) - graph_width - 1
    said, _ = joined(measure.phrases, room)
    graph = sparkline(values, measure.top_of(values), graph_width, measure.graph_tone, glyphs)
    return fitted((*line, *fitted(said, max(room, 0)), Span(" "), *graph), width)
