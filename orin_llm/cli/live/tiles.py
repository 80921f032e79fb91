"""Figures in boxes side by side, where there is room for graphs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from orin_llm.cli.live.charts import bar, chart
from orin_llm.cli.live.glyphs import Glyphs
from orin_llm.cli.live.history import History
from orin_llm.cli.live.measure import Measure
from orin_llm.cli.live.text import Line, Span, Tone, fitted, joined, line_width, spread, wrapped

MIN_WIDTH, MIN_HEIGHT = 38, 5
_MAX_LINES_SAID = 3


def tile_rows(
    measures: Sequence[Measure],
    columns: int,
    width: int,
    height: int,
    history: History,
    glyphs: Glyphs,
) -> list[Line]:
    """All in rows of at most `columns`, as even as can be; each row fills the width."""
    lines: list[Line] = []
    for row in _even_rows(measures, columns):
        widths = [width // len(row) + (n < width % len(row)) for n in range(len(row))]
        tiles = [_tile(m, w, height, history, glyphs) for m, w in zip(row, widths, strict=True)]
        lines += [
            tuple(span for part in parts for span in part) for parts in zip(*tiles, strict=True)
        ]
    return lines


def count_rows(count: int, columns: int) -> int:
    """Of tiles."""
    return -(-count // columns)


def _even_rows(measures: Sequence[Measure], columns: int) -> list[Sequence[Measure]]:
    rows = count_rows(len(measures), columns)
    if not rows:
        return []
    bounds = [round(n * len(measures) / rows) for n in range(rows + 1)]
    return [measures[first:last] for first, last in pairwise(bounds)]


def _tile(
    measure: Measure, width: int, height: int, history: History, glyphs: Glyphs
) -> list[Line]:
    inner = width - 4
    content = _content(measure, inner, height - 2, history, glyphs)
    return boxed(content, measure.label, width, "bad" if measure.tone == "bad" else "dim", glyphs)


def _content(
    measure: Measure, width: int, height: int, history: History, glyphs: Glyphs
) -> list[Line]:
    value = measure.value_span
    beside, count = joined(measure.phrases, width - line_width((value,)) - 2)
    top = [spread((value,), beside, width)]
    if measure.has_bar:
        top.append(bar(measure.part, width, measure.tone, measure.marks, glyphs))
    rest = height - len(top)
    said = wrapped(measure.phrases[count:], width)[: min(_MAX_LINES_SAID, rest // 2)]
    values = history.columns(measure.key, width)
    height = rest - len(said)
    graph = chart(values, measure.top_of(values), width, height, measure.graph_tone, glyphs)
    return [*top, *graph, *said]


def boxed(content: list[Line], title: str, width: int, tone: Tone, glyphs: Glyphs) -> list[Line]:
    """Lines of at most `width - 4` cells in a box of `width`."""
    top_left, top_right, bottom_left, bottom_right, level, upright = glyphs.box
    head = (Span(f"{top_left}{level} ", tone), Span(title, "title"), Span(" ", tone))
    side = Span(upright, tone)
    lines: list[Line] = [
        (*head, Span(level * (width - line_width(head) - 1) + top_right, tone)),
        *((side, Span(" "), *fitted(line, width - 4), Span(" "), side) for line in content),
        (Span(bottom_left + level * (width - 2) + bottom_right, tone),),
    ]
    return lines
