"""Results as text: one schema for JSON, JSON lines and CSV; Markdown, and a page of it."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from typing import Any

from orin_llm.bench.flat import flatten
from orin_llm.bench.html import to_html
from orin_llm.bench.knee import sweeps
from orin_llm.bench.report_markdown import report_to_markdown
from orin_llm.bench.result import R, Report, Reported, Result

# An array of numbers, written over many lines; a text in JSON has no line break.
_NUMBERS = re.compile(r"\[\n[\s\d.,eE+\-nul]*\]")
_PICTURED = ("itl_histogram", "timeline")


def to_json(report: Report[R]) -> str:
    """One object: the environment, `results`; `sweeps` of the load and `versus` where they are."""
    found: dict[str, Any] = {
        **report.environment,
        "results": [result.to_dict() for result in report.results],
    }
    swept = sweeps([result for result in report.results if isinstance(result, Result)])
    if swept:
        found["sweeps"] = [sweep.to_json() for sweep in swept]
    if compared := report.versus:
        found["versus"] = compared.to_json()
    return _NUMBERS.sub(_on_one_line, json.dumps(found, indent=2)) + "\n"


def _on_one_line(numbers: re.Match[str]) -> str:
    return " ".join(numbers[0].split())


def to_jsonl(report: Report[R]) -> str:
    """One object for each result, each with the environment."""
    return "".join(
        json.dumps({**report.environment, **result.to_dict()}) + "\n" for result in report.results
    )


def to_csv(report: Report[R]) -> str:
    """One line for each result; columns are the paths of the JSON: `latency.ttft_ms.p50`.

    What only a picture can show is left out.
    """
    rows = [dict(flatten({**report.environment, **_in_cells(r)})) for r in report.results]
    columns = dict.fromkeys(name for row in rows for name in row)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _in_cells(result: Reported) -> dict[str, Any]:
    return {name: value for name, value in result.to_dict().items() if name not in _PICTURED}


FORMATS: dict[str, Callable[[Report[Any]], str]] = {
    "md": report_to_markdown,
    "json": to_json,
    "jsonl": to_jsonl,
    "csv": to_csv,
    "html": to_html,
}
