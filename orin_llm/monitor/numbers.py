"""Numbers out of what others wrote."""

from __future__ import annotations

from collections.abc import Mapping

LARGEST = 1e100  # beyond this no figure is one: sums, differences and means of others stay finite


def finite(value: object) -> float | None:
    """The value as it is if it is a number that a figure can have; else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if -LARGEST <= value <= LARGEST else None  # also false of NaN


def number_at(data: object, *path: str) -> float | None:
    """The finite number below these names; None where there is something else, or nothing."""
    for name in path:
        data = data.get(name) if isinstance(data, Mapping) else None
    return finite(data)


def count_at(data: object, *path: str) -> int | None:
    """The same, as a whole number."""
    value = number_at(data, *path)
    return None if value is None else int(value)
