"""Alerts that are up, and what has happened."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from orin_llm.cli.live.text import Line, Span, Tone, fitted, joined, line_width
from orin_llm.cli.numbers import clock, duration
from orin_llm.monitor.state import Alert, AlertEvent

_GRAVE = ("throttled", "over_current", "temperature_c")  # shown first


def alert_lines(alerts: Sequence[Alert], now_ms: float, width: int, count: int) -> list[Line]:
    """Those that are up, the newest first; where they are more than `count`, how many more."""
    newest = sorted(alerts, key=lambda alert: (alert.rule not in _GRAVE, -alert.since_ms))
    shown = newest if len(newest) <= count else newest[: count - 1]
    lines = [_alert_line(alert, now_ms, width) for alert in shown]
    if len(shown) < len(newest):
        lines.append((Span(f"● and {len(newest) - len(shown)} more", "bad"),))
    return lines


def event_lines(events: Sequence[AlertEvent], width: int) -> list[Line]:
    """What has happened, the newest first."""
    lines: list[Line] = []
    for event in reversed(events):
        what = Span("raised  ", "bad") if event.kind == "raised" else Span("cleared ", "good")
        head = (Span(f"{clock(event.at_ms)} ", "dim"), what)
        lines.append((*head, Span(_text(event.alert, width - line_width(head)), "dim")))
    return lines


def _alert_line(alert: Alert, now_ms: float, width: int) -> Line:
    tone: Tone = "alarm" if alert.rule == "throttled" else "bad"
    what: Line = (Span("● ", "bad"), Span(_text(alert, width - 2), tone))
    when = (
        Span(f"for {duration(now_ms - alert.since_ms)}", "dim"),
        Span(f"since {clock(alert.since_ms)}", "dim"),
    )
    said, count = joined(when, width - line_width(what) - 2)
    return (*what, Span("  "), *said) if count else fitted(what, width)


def _text(alert: Alert, width: int) -> str:
    """The alert's words, as many from the first on as fit, and if possible the engine's name."""
    if cell_len(alert.text) <= width:
        return alert.text
    head, _, model = alert.text.rpartition(": ")
    if head and alert.subject and model.endswith(f" ({alert.subject})"):
        texts = f"{head} ({alert.subject})", f"{head.rpartition(', ')[0]} ({alert.subject})"
    else:
        texts = alert.text.rpartition(", ")[0], alert.text
    return next((text for text in texts if text and cell_len(text) <= width), alert.text)
