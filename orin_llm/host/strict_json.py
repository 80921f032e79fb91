"""JSON of nothing but numbers that JSON knows: no NaN, nothing infinite."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any


def strict_json(value: object, indent: int | None = None) -> str:
    """In ASCII. What is NaN or infinite is left out of mappings and lists."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(_without_nan(value), indent=indent, allow_nan=False)


def json_line(values: Mapping[str, Any]) -> str:
    """One line, with its end."""
    return strict_json(values) + "\n"


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {name: _without_nan(entry) for name, entry in value.items()}
        return {name: entry for name, entry in kept.items() if not _is_nan(entry)}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_without_nan(entry) for entry in value if not _is_nan(entry)]
    return value


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
