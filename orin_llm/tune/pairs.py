"""What pairs of measurements say of a ratio: its middle, and the interval that it lies in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from orin_llm.bench.outliers import MAD_TO_DEVIATION
from orin_llm.bench.ratios import paired

_FAR = 5.0  # standard deviations, robustly
_LEAST = 5  # pairs of which one may be left out


@dataclass(frozen=True)
class Ratio:
    """A ratio, and where it lies at 95 % (None: fewer than two pairs).

    Attributes:
        pairs: that count.
        outliers: pairs that were left out, for they are far from all others.
    """

    value: float
    low: float | None
    high: float | None
    pairs: int = 1
    outliers: int = 0

    @property
    def is_below_one(self) -> bool:
        """Significantly."""
        return self.high is not None and self.high < 1

    @property
    def is_open(self) -> bool:
        """Whether it may be 1, as far as the pairs tell."""
        return self.low is None or self.high is None or self.low <= 1 <= self.high

    @property
    def text(self) -> str:
        """`0.93 (0.91 … 0.95)`."""
        if self.low is None or self.high is None:
            return f"{self.value:.3f}"
        return f"{self.value:.3f} ({self.low:.3f} … {self.high:.3f})"


def ratio_of(logs: Sequence[float]) -> Ratio | None:
    """Of the logarithms of the pairs' ratios; None without any."""
    if not logs:
        return None
    kept = _without_far_ones(logs)
    found = paired([math.exp(value) for value in kept])
    assert found is not None
    return Ratio(found.mean, found.low, found.high, found.count, len(logs) - len(kept))


def _without_far_ones(logs: Sequence[float]) -> list[float]:
    if len(logs) < _LEAST:
        return list(logs)
    middle = median(logs)
    scale = MAD_TO_DEVIATION * median(abs(value - middle) for value in logs)
    return [value for value in logs if abs(value - middle) <= _FAR * scale or scale == 0]
