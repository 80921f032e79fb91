"""Ratios, how sure they are, and what lies apart from the rest."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.bench.ratios import Ratio, paired, student_t, unpaired

positive = st.floats(1e-3, 1e3)
# From printed tables of Student's t, two-sided, 5 %.
TABLE = {1: 12.7062, 2: 4.30265, 3: 3.18245, 4: 2.77645, 9: 2.26216, 29: 2.04523, 120: 1.97993}


@pytest.mark.parametrize(("freedom", "t"), TABLE.items())
def test_students_t_is_that_of_the_tables(freedom: int, t: float) -> None:
    assert student_t(freedom) == pytest.approx(t, rel=1e-5)


def test_with_many_degrees_of_freedom_students_t_is_the_normal_distributions() -> None:
    assert student_t(1e9) == pytest.approx(NormalDist().inv_cdf(0.975), rel=2e-4)


def test_students_t_of_a_fraction_is_the_integral_of_its_density() -> None:
    n, x = 2.5, np.linspace(0, 10, 200_001)
    scale = math.gamma((n + 1) / 2) / math.sqrt(n * math.pi) / math.gamma(n / 2)
    density = scale * (1 + x * x / n) ** (-(n + 1) / 2)
    inside = 2 * float(density[x <= student_t(n)].sum() * (x[1] - x[0]))
    assert inside == pytest.approx(0.95, abs=1e-4)


def of_pairs(ratios: list[float]) -> Ratio:
    found = paired(ratios)
    assert found is not None
    return found


def test_of_pairs_the_interval_is_that_of_the_logarithms_mean() -> None:
    found = of_pairs([1.1, 1.2, 1.3])
    logs = [math.log(1.1), math.log(1.2), math.log(1.3)]
    mean, deviation = float(np.mean(logs)), float(np.std(logs, ddof=1))
    half = TABLE[2] * deviation / math.sqrt(3)
    assert found.mean == pytest.approx(math.exp(mean))
    assert found.low == pytest.approx(math.exp(mean - half), rel=1e-5)
    assert found.high == pytest.approx(math.exp(mean + half), rel=1e-5)
    assert (found.median, found.min, found.max, found.count) == (1.2, 1.1, 1.3, 3)


def test_a_ratio_is_significant_when_one_lies_outside_of_its_interval() -> None:
    assert of_pairs([1.1, 1.12, 1.11, 1.13]).significant is True
    assert of_pairs([0.9, 1.1, 1.05, 0.97]).significant is False
    assert of_pairs([1.0, 1.0, 1.0]).significant is False
    assert of_pairs([2.0, 2.0]).significant is True  # no scatter at all


def test_one_pair_says_how_much_and_not_how_sure() -> None:
    assert of_pairs([1.5]) == Ratio(1.5, None, None, None, 1.5, 1.5, 1.5, 1)
    assert paired([]) is None
    with pytest.raises(ValueError, match="-1"):
        paired([1.0, -1.0])


@given(st.lists(positive, min_size=2, max_size=20))
def test_the_other_way_round_everything_is_the_inverse(ratios: list[float]) -> None:
    found, inverse = of_pairs(ratios), of_pairs([1 / ratio for ratio in ratios])
    assert found.low and found.high and inverse.low and inverse.high
    assert found.mean == pytest.approx(1 / inverse.mean, rel=1e-6)
    assert found.significant == (not found.low <= 1 <= found.high)
    assert math.log(found.low) == pytest.approx(-math.log(inverse.high), rel=1e-6, abs=1e-6)
    assert found.significant == inverse.significant


def test_the_interval_holds_the_true_ratio_in_95_of_100_cases() -> None:
    random = np.random.default_rng(1)
    held = 0
    for _ in range(2000):
        found = of_pairs(list(1.25 * np.exp(random.normal(0, 0.1, size=5))))
        assert found.low and found.high
        held += found.low <= 1.25 <= found.high
    assert 0.935 < held / 2000 < 0.965


def test_the_interval_of_unpaired_groups_holds_the_true_ratio_too() -> None:
    random = np.random.default_rng(2)
    held = 0
    for _ in range(2000):
        a = list(5 * np.exp(random.normal(0, 0.02, size=4)))
        b = list(4 * np.exp(random.normal(0, 0.1, size=8)))
        found = unpaired(a, b)
        assert found is not None and found.low and found.high
        held += found.low <= 1.25 <= found.high
    assert 0.935 < held / 2000 < 0.97


def test_groups_of_one_size_and_scatter_have_the_interval_of_students_two_groups() -> None:
    # Welch's degrees of freedom are n + n - 2 then, and his error that of the pooled deviation.
    logs = [0.1, 0.2, 0.3]
    found = unpaired([math.exp(log + 1) for log in logs], [math.exp(log) for log in logs])
    assert found is not None and found.low and found.high
    half = TABLE[4] * math.sqrt(2 / 3) * float(np.std(logs, ddof=1))
    assert found.mean == pytest.approx(math.e)
    assert math.log(found.low) == pytest.approx(1 - half, rel=1e-5)
    assert math.log(found.high) == pytest.approx(1 + half, rel=1e-5)


def test_the_interval_agrees_with_that_of_resampling() -> None:
    random = np.random.default_rng(3)
    ratios = list(1.1 * np.exp(random.normal(0, 0.05, size=200)))
    means = np.exp(np.log(ratios)[random.integers(0, 200, size=(4000, 200))].mean(axis=1))
    found = of_pairs(ratios)
    assert found.low == pytest.approx(np.quantile(means, 0.025), abs=1e-3)
    assert found.high == pytest.approx(np.quantile(means, 0.975), abs=1e-3)


def test_groups_measured_apart_have_a_ratio_of_their_means() -> None:
    found = unpaired([2.0, 8.0], [1.0, 1.0])
    assert found is not None
    assert (found.mean, found.median, found.count) == (pytest.approx(4), 5, 2)
    assert found.significant is False and (found.min, found.max) == (None, None)
    alone = unpaired([2.0], [1.0, 1.1])
    assert alone is not None and alone.low is None and alone.significant is None
    assert unpaired([], [1.0]) is None
    same = unpaired([2.0, 2.0], [1.0, 1.0])
    assert same is not None and (same.low, same.high) == (2, 2) and same.significant is True
