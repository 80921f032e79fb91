"""What the view remembers: the last minutes of each figure, bounded."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

SPAN_S = 120.0  # what a graph shows at least
CAPACITY = 1200  # values of one figure: 2 minutes at the shortest interval


class History:
    """The newest values of each figure, by its key.

    A figure that is not in the newest values is forgotten with all of its past.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._series: dict[str, deque[float | None]] = {}
        self._count: dict[str, int] = {}

    def add(self, values: Mapping[str, float | None]) -> None:
        """Those of one moment, an interval after the ones before."""
        for key in self._series.keys() - values.keys():
            del self._series[key], self._count[key]
        for key, value in values.items():
            series = self._series.setdefault(key, deque(maxlen=CAPACITY))
            series.append(value)
            self._count[key] = self._count.get(key, 0) + 1

    def columns(self, key: str, count: int) -> list[float | None]:
        """Means of `count` equal stretches of time or fewer, the newest last.

        A stretch is a whole number of values, the same ones until it is full, so that a graph
        moves by whole columns.
        """
        series = self._series.get(key)
        if not series or count <= 0:
            return []
        # No more than there can be: a recording may name any interval.
        size = math.ceil(min(SPAN_S / self._interval_s / count, CAPACITY))
        values = list(series)
        past = self._count[key] - len(values)  # already forgotten
        first = -past % size  # a stretch of which the beginning is forgotten is left out
        starts = range(first, len(values), size)[-count:]
        return [_mean(values[start : start + size]) for start in starts]


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(map(float, known)) / len(known) if known else None
