"""Numbers out of what others wrote, and JSON of nothing but numbers that JSON knows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

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


def json_line(values: Mapping[str, Any]) -> str:
    """One line of JSON in ASCII, with its end; members that are NaN or infinite are left out."""
    try:
        return json.dumps(values, allow_nan=False) + "\n"
    except ValueError:
        return json.dumps(without_nan(values), allow_nan=False) + "\n"


def without_nan(value: Any) -> Any:
    """What JSON can hold of a value made of mappings, sequences and numbers."""
    if isinstance(value, Mapping):
        kept = {name: without_nan(entry) for name, entry in value.items()}
        return {name: entry for name, entry in kept.items() if not _is_nan(entry)}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [without_nan(entry) for entry in value if not _is_nan(entry)]
    return value


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
