"""Percentiles, as every figure of the engine, the command line and the benchmark has them."""

from __future__ import annotations

from collections.abc import Sequence

PERCENTS = (50, 90, 95, 99)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Of values in rising order, one at least: linear between the two nearest."""
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
