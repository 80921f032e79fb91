"""The line above the figures and the one below them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orin_llm.cli.live.text import Line, Span, fitted, joined, line_width, spread
from orin_llm.cli.numbers import clock, date_and_clock
from orin_llm.monitor.snapshot import Subject
from orin_llm.monitor.state import State


@dataclass(frozen=True)
class Playing:
    """How the feed runs.

    Attributes:
        speed: of a replay, in multiples of the time that it took; None: the machine now.
    """

    speed: float | None = None
    is_paused: bool = False
    is_over: bool = False


def header(subject: Subject, state: State | None, playing: Playing, width: int) -> Line:
    """The machine, how it is set and read, and the time; the less important goes first."""
    at_ms = state.snapshot.at_ms if state else None
    right: list[Span] = []
    if playing.is_paused:
        right.append(Span(" PAUSED ", "alarm"))
    if playing.speed is not None:
        right.append(Span("ended" if playing.is_over else f"replay ×{playing.speed:g}", "warn"))
    if at_ms is not None:
        replayed = playing.speed is not None and width >= 80
        text = date_and_clock(at_ms) if replayed else clock(at_ms)
        right.append(Span(f"recorded {text}" if replayed and playing.is_over else text, "strong"))
    ending, _ = joined(right, width, "  ")
    room = width - line_width(ending) - 2
    name = Span(subject.name.removeprefix("NVIDIA "), "title")
    said, count = joined([name, *_said(subject, state)], room)
    return spread(said if count else fitted((name,), max(room, 0)), ending, width)


def _said(subject: Subject, state: State | None) -> list[Span]:
    mode = (subject.mode or "").removeprefix("MODE_")
    sources = "+".join(state.snapshot.reading.sources) if state else ""
    texts = [
        (subject.host or "").partition(".")[0],
        mode and f"mode {mode}",
        subject.jetpack and f"JetPack {subject.jetpack}",
        sources,
        subject.l4t and f"L4T {subject.l4t}",
    ]
    return [Span(text) for text in texts if text]


def problem_line(state: State | None, width: int) -> Line | None:
    """What of the sources gives nothing, and why, on one line; not what an alert already says."""
    problems = state.problems if state else {}
    alerts = {alert.text for alert in state.alerts} if state else set()
    texts = [f"{name}: {problem}" for name, problem in problems.items()]
    text = " · ".join(text for text in texts if text not in alerts)
    if not text:
        return None
    return fitted((Span(text.replace("\n", " "), "dim"),), width)


def footer(playing: Playing, engines: int, hidden_lines: int, width: int) -> Line:
    """The keys that do something now."""
    keys = [("q", "quit"), ("?", "help")]
    if not playing.is_over:
        keys.append(("p", "resume" if playing.is_paused else "pause"))
    if engines > 1:
        keys.append(("Tab", "next engine"))
    if hidden_lines:
        keys.append(("PgDn", f"{hidden_lines} more lines"))
    return fitted(_keys(keys, width), width)


def _keys(keys: Sequence[tuple[str, str]], width: int) -> Line:
    line: Line = ()
    for key, meaning in keys:
        longer = (*line, Span("  " if line else " "), Span(key, "key"), Span(f" {meaning}"))
        if line_width(longer) > width:
            break
        line = longer
    return line
