"""Recorded loads: files that say when requests came and how long they and their answers were."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orin_llm.errors import UsageError

FIELDS = ("arrival_ms", "prompt_tokens", "max_tokens")


@dataclass(frozen=True)
class TracedRequest:
    """One request of a trace; `arrival_ms` counts from its beginning."""

    arrival_ms: float
    prompt_tokens: int
    max_tokens: int


def read_trace(path: Path) -> tuple[TracedRequest, ...]:
    """Read a trace, in order of arrival: JSON lines, or CSV with a header line.

    Both name arrival_ms, prompt_tokens and max_tokens; other fields are ignored.

    Raises:
        UsageError: it cannot be read, or a line is not of this kind; the message names it.
    """
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise UsageError(
            f"--trace {path}: {error.strerror or error}: name a file of JSON lines, or CSV with a "
            f"header, that has {', '.join(FIELDS)}"
        ) from None
    rows = _json_rows(text, path) if text.lstrip().startswith("{") else _csv_rows(text, path)
    requests = [_request(row, where) for where, row in rows]
    if not requests:
        raise UsageError(f"{path}: this trace has no requests")
    return tuple(sorted(requests, key=lambda request: request.arrival_ms))


def _json_rows(text: str, path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{path}, line {number}: no JSON: {error}") from None
        if not isinstance(row, dict):
            raise UsageError(f"{path}, line {number}: expected an object with {', '.join(FIELDS)}")
        yield f"{path}, line {number}", row


def _csv_rows(text: str, path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    try:
        missing = set(FIELDS) - set(reader.fieldnames or ())
        if missing:
            raise UsageError(
                f"{path}: no column {', '.join(sorted(missing))}: expected CSV whose first line "
                f"names {', '.join(FIELDS)}, or one JSON object a line"
            )
        for row in reader:
            yield f"{path}, line {reader.line_num}", row
    except csv.Error as error:  # such as a NUL before Python 3.11
        raise UsageError(f"{path}, line {reader.reader.line_num}: no CSV: {error}") from None


def _request(row: Mapping[str, Any], where: str) -> TracedRequest:
    arrival_ms, prompt_tokens, max_tokens = (_number(row, name, where) for name in FIELDS)
    for name, value in (("prompt_tokens", prompt_tokens), ("max_tokens", max_tokens)):
        if value < 1 or value != int(value):
            raise UsageError(f"{where}: {name} is {value:g}: expected a whole number from 1")
    return TracedRequest(arrival_ms, int(prompt_tokens), int(max_tokens))


def _number(row: Mapping[str, Any], name: str, where: str) -> float:
    try:
        value = float(row[name])
    except (KeyError, TypeError, ValueError, OverflowError):
        value = math.nan
    if not 0 <= value < math.inf:
        raise UsageError(f"{where}: {name} is {row.get(name)!r}: expected a number from 0")
    return value
