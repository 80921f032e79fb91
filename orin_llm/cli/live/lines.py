"""The Textual widget that shows lines, and the colours of their tones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from orin_llm.cli.live.glyphs import Glyphs
from orin_llm.cli.live.text import Line, Tone

# The terminal's own eight colours on its own background. Each tone that matters can also be told
# without colours: by its attribute, or by its words.
STYLES: Mapping[Tone, Style] = {
    "plain": Style(),
    "dim": Style(dim=True),
    "strong": Style(bold=True),
    "title": Style(color="cyan", bold=True),
    "key": Style(color="cyan", bold=True),
    "graph": Style(color="cyan"),
    "good": Style(color="green"),
    "warn": Style(color="yellow", bold=True),
    "bad": Style(color="red", bold=True),
    "alarm": Style(color="red", bold=True, reverse=True),
}


class Lines(Widget, can_focus=False):
    """Lines as wide as the widget. Only those that change are drawn again.

    Attributes:
        first: of the lines, the one that is seen at the top.
    """

    class Resized(Message):
        """There is another number of cells to fill."""

    def __init__(self, glyphs: Glyphs, *, id: str) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._lines: Sequence[Line] = ()
        self.first = 0

    @property
    def text(self) -> str:
        """All lines, those that are not seen too."""
        written = self._glyphs.written
        return "\n".join("".join(written(span.text) for span in line) for line in self._lines)

    @property
    def hidden_lines(self) -> int:
        """Below the last that is seen."""
        return max(0, len(self._lines) - self.first - self.size.height)

    def on_resize(self) -> None:
        self.post_message(self.Resized())

    def show(self, lines: Sequence[Line]) -> None:
        """Lines in place of those before, from the same one on."""
        before, self._lines = self._lines, lines
        first = self.first
        self.scroll_by(0)
        if len(before) != len(lines) or first != self.first:
            self.refresh()
            return
        changed = [n - first for n, line in enumerate(lines) if line != before[n]]
        areas = [Region(0, y, self.size.width, 1) for y in changed if 0 <= y < self.size.height]
        if areas:
            self.refresh(*areas)

    def scroll_by(self, lines: int) -> None:
        """Down, or up where it is negative, as far as there are lines."""
        last = max(0, len(self._lines) - self.size.height)
        first = min(max(self.first + lines, 0), last)
        if first != self.first:
            self.first = first
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """For Textual: a line of the widget."""
        n = y + self.first
        if n >= len(self._lines):
            return Strip.blank(self.size.width)
        written = self._glyphs.written
        segments = [Segment(written(span.text), STYLES[span.tone]) for span in self._lines[n]]
        return Strip(segments, self.size.width)
