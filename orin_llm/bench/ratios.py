"""Ratios of measurements with their 95 % confidence interval, and whether they say anything.

Times and rates scatter by factors rather than by amounts, so the arithmetic is that of logarithms:
their mean is the logarithm of the geometric mean of the ratios, and Student's t bounds it (W. S.
Gosset 1908; of two groups that make no pairs, B. L. Welch 1947).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

CONFIDENCE = 0.95
_MOST_FREEDOM = 10_000  # beyond it the quantile is that of the normal distribution


@dataclass(frozen=True)
class Ratio:
    """How many times as much one is as the other.

    Attributes:
        mean: geometric.
        low, high: its 95 % confidence interval; None where there are too few values to tell.
        significant: 1 lies outside of that; None without one.
        median, min, max: of the pairs' ratios; without pairs, of the medians, and None.
        count: pairs, or the values of the smaller group.
    """

    mean: float
    low: float | None
    high: float | None
    significant: bool | None
    median: float
    min: float | None
    max: float | None
    count: int


def paired(ratios: Sequence[float]) -> Ratio | None:
    """Of pairs that were measured next to each other; None without any.

    Raises:
        ValueError: a ratio is not positive.
    """
    if not ratios:
        return None
    if min(ratios) <= 0:
        raise ValueError(f"a ratio of {min(ratios)}: expected more than 0")
    logs = np.log(ratios)
    n, mean = len(ratios), float(logs.mean())
    error = float(logs.std(ddof=1)) / math.sqrt(n) if n > 1 else None
    return _ratio(
        mean, error, n - 1, n, (float(np.median(ratios)), float(min(ratios)), float(max(ratios)))
    )


def unpaired(numerators: Sequence[float], denominators: Sequence[float]) -> Ratio | None:
    """Of two groups that were measured apart, such as yesterday and today; None if one is empty.

    Raises:
        ValueError: a value is not positive.
    """
    if not numerators or not denominators:
        return None
    if min(*numerators, *denominators) <= 0:
        raise ValueError("a ratio of values that are not positive")
    a, b = np.log(numerators), np.log(denominators)
    error, freedom = None, 1.0
    if len(a) > 1 and len(b) > 1:
        of_a, of_b = float(a.var(ddof=1)) / len(a), float(b.var(ddof=1)) / len(b)
        error = math.sqrt(of_a + of_b)
        parts = of_a**2 / (len(a) - 1) + of_b**2 / (len(b) - 1)
        freedom = (of_a + of_b) ** 2 / parts if parts > 0 else len(a) + len(b) - 2
    median = float(np.median(numerators) / np.median(denominators))
    mean = float(a.mean() - b.mean())
    return _ratio(mean, error, freedom, min(len(a), len(b)), (median, None, None))


def _ratio(
    log_mean: float,
    error: float | None,
    freedom: float,
    count: int,
    order: tuple[float, float | None, float | None],
) -> Ratio:
    median, least, most = order
    if error is None:
        return Ratio(math.exp(log_mean), None, None, None, median, least, most, count)
    half = student_t(freedom) * error
    low, high = _exp(log_mean - half), _exp(log_mean + half)
    return Ratio(math.exp(log_mean), low, high, not low <= 1 <= high, median, least, most, count)


def _exp(log: float) -> float:
    """Of two values that are far apart an end of the interval may be beyond any number."""
    return math.exp(max(-700.0, min(700.0, log)))


@cache
def student_t(freedom: float) -> float:
    """What Student's t with so many degrees of freedom stays within, ±, in 95 % of all cases.

    With t = √freedom · tan θ the density is a power of cos θ, whose area up to θ is found by the
    trapezoidal rule: exact to five digits.
    """
    freedom = min(max(freedom, 1.0), _MOST_FREEDOM)
    # Nearly all of the area lies within some standard deviations, 1 / √freedom of the angle each.
    end = min(math.pi / 2, 40 / math.sqrt(freedom))
    theta = np.linspace(0, end, 8_001)
    density = np.cos(theta) ** (freedom - 1)
    area = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    angle = float(np.interp(CONFIDENCE * area[-1], area, theta))
    return math.sqrt(freedom) * math.tan(angle)
