"""Two ways to sum up many values: over pooled requests, and over repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orin_llm.percentile import PERCENTS, percentile


@dataclass(frozen=True)
class Distribution:
    """Pooled values. Percentiles are interpolated linearly between the two nearest values."""

    count: int
    mean: float
    std: float
    p50: float
    p90: float
    p95: float
    p99: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Distribution | None:
        """None without values."""
        if not values:
            return None
        ordered = sorted(values)
        percentiles = (percentile(ordered, percent) for percent in PERCENTS)
        return cls(len(values), float(np.mean(values)), float(np.std(values)), *percentiles)


@dataclass(frozen=True)
class Spread:
    """One value of each repetition."""

    median: float
    mean: float
    std: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """None without values."""
        if not values:
            return None
        return cls(
            float(np.median(values)),
            float(np.mean(values)),
            float(np.std(values)),
            min(values),
            max(values),
        )
