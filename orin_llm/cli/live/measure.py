"""A figure as it is shown, in a row or in a tile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orin_llm.cli.live.charts import Mark
from orin_llm.cli.live.text import Span, Tone
from orin_llm.cli.numbers import MISSING
from orin_llm.monitor.state import Alert

OVER = "!"  # before a value that is over its limit
NEARLY = 0.9  # of a limit: shown in yellow from here on


@dataclass(frozen=True)
class Measure:
    """One figure with what belongs to it.

    Attributes:
        key: of its past in the history.
        value: with its unit.
        part: of the bar, 0 … 1; None where it is not known.
        top: which the graph shows as its full height; None: the highest value shown.
        has_bar: whether there is a whole that it can be a part of.
        marks: limits, on the bar.
        phrases: what else there is to say, the most important first.
        tone: good, warn or bad.
        rank: the higher, the sooner it is left out where there is no room; 0 stays.
    """

    key: str
    label: str
    value: str
    part: float | None = None
    top: float | None = 1.0
    has_bar: bool = True
    marks: tuple[Mark, ...] = ()
    phrases: tuple[Span, ...] = ()
    tone: Tone = "good"
    rank: int = 0

    @property
    def value_span(self) -> Span:
        """The value: yellow near its limit; above it red, with a sign for who sees no colours."""
        if self.value == MISSING:
            return Span(self.value, "dim")
        if self.tone == "bad":
            return Span(OVER + self.value, "bad")
        return Span(self.value, "strong" if self.tone == "good" else self.tone)

    @property
    def graph_tone(self) -> Tone:
        """Of the graph's colour, unless the figure is too high."""
        return "graph" if self.tone == "good" else self.tone

    def top_of(self, values: Iterable[float | None]) -> float:
        """The value that fills the height of a graph of these."""
        if self.top is not None:
            return self.top
        return max((value for value in values if value is not None), default=0.0)


def phrases(*texts: str) -> tuple[Span, ...]:
    """Those that say something."""
    return tuple(Span(text, "dim") for text in texts if text)


def tone_of(rule: str, alerts: Iterable[Alert], value: float | None, limit: float | None) -> Tone:
    """Red with an alert of the rule, yellow near the limit."""
    if any(alert.rule == rule for alert in alerts):
        return "bad"
    if value is not None and limit is not None and value >= NEARLY * limit:
        return "warn"
    return "good"
