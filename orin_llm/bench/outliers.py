"""Repetitions that lie apart from the others. They are told, never left out of a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

LEAST_VALUES = 5  # with fewer it cannot be told which of them are the usual ones
_DEVIATIONS = 3.5  # of the median, in robust standard deviations: Iglewicz and Hoaglin, 1993
MAD_TO_DEVIATION = 1.4826  # of a normal distribution
_PART = 0.02  # of the median: what differs by less disturbs no figure, however alike the others are


def outliers(repeated: Mapping[str, Sequence[float | None]]) -> dict[str, tuple[int, ...]]:
    """The repetitions, from 1, whose value of a figure lies apart; figures without are left out.

    Apart is further from the median than 3.5 times 1.4826 times the median distance from it (MAD),
    and than 2 % of the median.

    Args:
        repeated: each figure in every repetition, see `by_repetition`.
    """
    found = {name: _apart(values) for name, values in repeated.items()}
    return {name: apart for name, apart in found.items() if apart}


def _apart(values: Sequence[float | None]) -> tuple[int, ...]:
    known = [(n, value) for n, value in enumerate(values, 1) if value is not None]
    if len(known) < LEAST_VALUES:
        return ()
    median = float(np.median([value for _, value in known]))
    distances = [(n, abs(value - median)) for n, value in known]
    mad = float(np.median([distance for _, distance in distances]))
    limit = max(_DEVIATIONS * MAD_TO_DEVIATION * mad, _PART * abs(median))
    return tuple(n for n, distance in distances if distance > limit)
