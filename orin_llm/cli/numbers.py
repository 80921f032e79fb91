"""Numbers as they are shown. What is missing is a dash, never 0."""

from __future__ import annotations

import time

MISSING = "–"


def amount(value: float | None, unit: str) -> str:
    """`1300 MHz`, `171 GB/s`, `41.2 tok/s`, `8.25 ms`: three digits or more."""
    if value is None:
        return MISSING
    digits = 0 if value == 0 or abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{digits}f} {unit}"


def time_text(ms: float | None) -> str:
    """`8.25 ms`, `120 µs`: in the unit that it has digits in."""
    return amount(ms, "ms") if ms is None or ms >= 1 or ms == 0 else amount(1000 * ms, "µs")


def tenths(value: float | None, unit: str = "") -> str:
    """`56.0 °C`."""
    return MISSING if value is None else f"{value:.1f} {unit}".rstrip()


def whole(value: float | None, unit: str) -> str:
    """`92 %`."""
    return MISSING if value is None else f"{value:.0f} {unit}"


def limit(value: float, unit: str) -> str:
    """`30 W`, `22.5 W`: as it was set."""
    return f"{value:g} {unit}"


def sizes(used: float | None, total: float | None) -> str:
    """`15.7 of 65.9 GB`, both in the unit of the larger one."""
    largest = max(used or 0, total or 0)
    unit, scale = next(
        (unit, scale)
        for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1))
        if largest >= scale or unit == "B"
    )
    digits = 0 if unit == "B" else 1 if largest >= 10 * scale else 2

    def text(size: float | None) -> str:
        return MISSING if size is None else f"{size / scale:.{digits}f}"

    return f"{text(used)} {unit}" if total is None else f"{text(used)} of {text(total)} {unit}"


def clock(at_ms: float) -> str:
    """`14:03:59`, local time."""
    return _local(at_ms, "%H:%M:%S")


def date_and_clock(at_ms: float) -> str:
    """`2026-11-30 14:03:59`, local time."""
    return _local(at_ms, "%Y-%m-%d %H:%M:%S")


def duration(ms: float) -> str:
    """`42 s`, `12 min`, `3 h 5 min`, `2 d 4 h`."""
    seconds = max(0, int(ms / 1000))
    if seconds < 60:
        return f"{seconds} s"
    minutes = seconds // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"


def _local(at_ms: float, form: str) -> str:
    try:
        return time.strftime(form, time.localtime(at_ms / 1000))
    except (OverflowError, ValueError, OSError):  # a recording can say anything
        return MISSING
