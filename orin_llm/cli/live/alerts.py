"""Alerts that are up, and what has happened."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from orin_llm.cli.live.text import Line, Span, Tone, fitted, joined, line_width
from orin_llm.cli.numbers import amount, clock, duration, limit, whole
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
    """The alert's own words, or fewer where these do not fit: what it is about and how much."""
    text = alert.text
    if cell_len(text) <= width:
        return text
    value = {
        "ttft_ms": f"TTFT {amount(alert.value, 'ms')}, above {limit(alert.threshold, 'ms')}",
        "tpot_ms": f"TPOT {amount(alert.value, 'ms')}, above {limit(alert.threshold, 'ms')}",
        "kv_used": f"KV {whole(100 * alert.value, '%')}, above {100 * alert.threshold:g} %",
    }.get(alert.rule)
    return text.rpartition(", ")[0] or text if value is None else f"{value} ({alert.subject})"
