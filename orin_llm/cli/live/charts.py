"""Bars, sparklines and charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orin_llm.cli.live.glyphs import Glyphs
from orin_llm.cli.live.text import Line, Span, Tone


@dataclass(frozen=True)
class Mark:
    """A limit on a bar, as a part of its length."""

    part: float
    tone: Tone


def bar(part: float | None, width: int, tone: Tone, marks: Sequence[Mark], glyphs: Glyphs) -> Line:
    """A bar of `width` cells filled to `part`; None, which is not known, is an empty one."""
    steps = len(glyphs.parts) - 1
    filled = round(min(max(0, part or 0), 1) * width * steps)  # in this order NaN is 0
    cells = [Span(glyphs.parts[steps], tone)] * (filled // steps)
    if filled % steps:
        cells.append(Span(glyphs.parts[filled % steps], tone))
    cells += [Span(glyphs.track, "dim")] * (width - len(cells))
    for mark in marks:
        at = min(int(mark.part * width), width - 1)
        if cells[at].text == glyphs.track:
            cells[at] = Span(glyphs.mark, mark.tone)
    return _merged(cells)


def sparkline(
    values: Sequence[float | None], top: float, width: int, tone: Tone, glyphs: Glyphs
) -> Line:
    """A cell for each value, the newest at the right; a missing one is blank."""
    return chart(values, top, width, 1, tone, glyphs)[0]


def chart(
    values: Sequence[float | None], top: float, width: int, height: int, tone: Tone, glyphs: Glyphs
) -> list[Line]:
    """Columns up to `height` cells high, of which `top` fills all."""
    recent = list(values[-width:]) if width else []
    steps = len(glyphs.levels)
    heights = [None if value is None else _steps(value, top, height * steps) for value in recent]
    blank = " " * (width - len(recent))
    rows: list[Line] = []
    for row in reversed(range(height)):
        below = row * steps
        text = "".join(_cell(step, below, glyphs.levels) for step in heights)
        rows.append((Span(blank + text, tone),))
    return rows


def _steps(value: float, top: float, steps: int) -> int:
    """From 1: a value of 0 is seen, unlike one that is missing."""
    return max(1, round(min(max(0, value / top), 1) * steps)) if top > 0 else 1


def _cell(step: int | None, below: int, levels: str) -> str:
    if step is None or step <= below:
        return " "
    return levels[min(step - below, len(levels)) - 1]


def _merged(cells: Sequence[Span]) -> Line:
    spans: list[Span] = []
    for cell in cells:
        if spans and spans[-1].tone == cell.tone:
            spans[-1] = Span(spans[-1].text + cell.text, cell.tone)
        else:
            spans.append(cell)
    return tuple(spans)
