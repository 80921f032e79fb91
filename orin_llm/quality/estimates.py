"""Means of many values, and how far they may be off by chance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A figure and its standard deviation."""

    value: float
    uncertainty: float

    def exp(self) -> Estimate:
        """Of the exponential, for a small uncertainty."""
        value = math.exp(self.value)
        return Estimate(value, value * self.uncertainty)


def covariance_of_means(a: Values, b: Values) -> float:
    """Of the means of two rows of values of the same things; 0 where there are fewer than two."""
    if len(a) < 2:
        return 0.0
    return float(((a - a.mean()) * (b - b.mean())).mean() / (len(a) - 1))


def mean(values: Values) -> Estimate:
    """The mean of independent values."""
    return Estimate(float(values.mean()), math.sqrt(covariance_of_means(values, values)))
