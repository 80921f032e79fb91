"""A sensor's values as a curve over time, integrated over any interval."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Area:
    """An integral over the covered part of an interval: value × ms, and ms."""

    area: float
    covered_ms: float


class Curve:
    """Straight lines between readings; nothing where they are more than `max_gap_ms` apart."""

    def __init__(self, points: Iterable[tuple[float, float | None]], max_gap_ms: float) -> None:
        """`points` are (ms, value), the earliest first; those that were not read are left out."""
        self._times: list[float] = []
        self._values: list[float] = []
        self._areas: list[float] = []  # up to each point
        self._covered: list[float] = []
        self._max_gap_ms = max_gap_ms
        area = covered = 0.0
        for at_ms, value in points:
            if value is None or (self._times and at_ms <= self._times[-1]):
                continue
            if self._times and (step := at_ms - self._times[-1]) <= max_gap_ms:
                area += (value + self._values[-1]) / 2 * step
                covered += step
            self._times.append(at_ms)
            self._values.append(value)
            self._areas.append(area)
            self._covered.append(covered)

    def integrate(self, start_ms: float, end_ms: float) -> Area:
        """Over an interval, as far as there are readings around it."""
        if end_ms <= start_ms or len(self._times) < 2:
            return Area(0.0, 0.0)
        first, last = self._until(start_ms), self._until(end_ms)
        return Area(last.area - first.area, last.covered_ms - first.covered_ms)

    def _until(self, at_ms: float) -> Area:
        """From the first point on."""
        index = bisect_right(self._times, at_ms) - 1
        if index < 0:
            return Area(0.0, 0.0)
        area, covered = self._areas[index], self._covered[index]
        if index + 1 == len(self._times):
            return Area(area, covered)
        step, part = self._times[index + 1] - self._times[index], at_ms - self._times[index]
        if step > self._max_gap_ms:
            return Area(area, covered)
        value = self._values[index]
        there = value + (self._values[index + 1] - value) * part / step
        return Area(area + (value + there) / 2 * part, covered + part)
