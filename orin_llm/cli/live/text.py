"""Lines of a terminal: pieces of text with the part that each plays, counted in cells."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from rich.cells import cell_len, set_cell_size

Tone = Literal["plain", "dim", "strong", "title", "key", "graph", "good", "warn", "bad", "alarm"]


class Span(NamedTuple):
    """A piece of text; the tone decides its colour."""

    text: str
    tone: Tone = "plain"


Line = tuple[Span, ...]


def line_width(line: Line) -> int:
    """Cells."""
    return sum(cell_len(span.text) for span in line)


def fitted(line: Line, width: int) -> Line:
    """Exactly `width` cells: filled with spaces, or cut, the last cell then being `…`."""
    missing = width - line_width(line)
    if missing >= 0:
        return (*line, Span(" " * missing)) if missing else line
    kept: list[Span] = []
    room = width - 1
    for span in line:
        cells = cell_len(span.text)
        if cells > room:
            kept.append(Span(set_cell_size(span.text, room) + "…", span.tone))
            break
        kept.append(span)
        room -= cells
    return tuple(kept) if width else ()


def spread(left: Line, right: Line, width: int) -> Line:
    """Both at their sides of `width` cells; the left one gives way."""
    room = width - line_width(right)
    return (*fitted(left, room), *right) if room > 0 else fitted(right, width)


def joined(phrases: Iterable[Span], width: int, separator: str = " · ") -> tuple[Line, int]:
    """As many of the phrases, from the first on, as fit unbroken, and how many these are."""
    line: list[Span] = []
    room, count = width, 0
    for phrase in phrases:
        before = separator if line else ""
        room -= cell_len(before) + cell_len(phrase.text)
        if room < 0:
            break
        line += [Span(before, "dim"), phrase] if before else [phrase]
        count += 1
    return tuple(line), count


def wrapped(phrases: Iterable[Span], width: int) -> list[Line]:
    """The phrases in as few lines as hold them, broken between phrases; too long ones are cut."""
    rest = list(phrases)
    lines: list[Line] = []
    while rest:
        line, count = joined(rest, width)
        lines.append(line if count else fitted((rest[0],), width))
        rest = rest[max(count, 1) :]
    return lines
