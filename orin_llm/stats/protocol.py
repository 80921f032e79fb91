"""Lines on the socket: one JSON object each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from orin_llm.errors import OrinError

PROTOCOL = 1
DEFAULT_INTERVAL_MS = 1000
MIN_INTERVAL_MS = 20
MAX_INTERVAL_MS = 60_000
MAX_CLIENTS = 16
MAX_REQUEST_BYTES = 256  # what a client may send in all
MAX_LINE_BYTES = 1 << 16  # of what an engine sends
MAX_LEVELS = 32  # of objects and lists in each other: who copies or writes them recurses


def encode(values: Mapping[str, object]) -> bytes:
    """One line. Sets become sorted lists; what JSON has no word for becomes text.

    Raises:
        ValueError: a number is NaN or infinite, or the line is longer than MAX_LINE_BYTES.
    """
    line = json.dumps(values, allow_nan=False, default=_plain).encode() + b"\n"
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"a line of {len(line)} bytes, at most {MAX_LINE_BYTES} are sent")
    return line


def decode(line: bytes) -> dict[str, Any]:
    """The object of a line. Raises OrinError for what is none, and for an error that was sent."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise OrinError(f"expected a line of JSON, found {line[:80]!r}") from error
    if not isinstance(values, dict):
        raise OrinError(f"expected a JSON object, found {line[:80]!r}")
    if not _is_shallow(values, MAX_LEVELS):
        raise OrinError(f"expected at most {MAX_LEVELS} levels of JSON, found {line[:80]!r}")
    if "error" in values:
        raise OrinError(str(values["error"]))
    return values


def interval_of(request: bytes) -> int:
    """The interval that a client asks for. Raises OrinError for a request that is none."""
    values = decode(request)
    interval = values.get("interval_ms")
    if values.keys() != {"interval_ms"} or type(interval) is not int:
        raise OrinError('expected {"interval_ms": a whole number}')
    if not MIN_INTERVAL_MS <= interval <= MAX_INTERVAL_MS:
        raise OrinError(
            f"interval_ms is {interval}: expected {MIN_INTERVAL_MS} … {MAX_INTERVAL_MS}"
        )
    return interval


def _is_shallow(value: object, levels: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return True
    return levels > 0 and all(_is_shallow(entry, levels - 1) for entry in value)


def _plain(value: object) -> object:
    return sorted(value) if isinstance(value, (set, frozenset)) else str(value)
