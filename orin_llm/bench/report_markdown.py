"""Any report for people: Markdown."""

from __future__ import annotations

from typing import Any

from orin_llm.bench.markdown import to_markdown
from orin_llm.bench.result import Report
from orin_llm.bench.start_markdown import starts_to_markdown
from orin_llm.bench.start_result import StartResult
from orin_llm.bench.versus_markdown import versus_to_markdown


def report_to_markdown(report: Report[Any]) -> str:
    """What was measured where, its tables, and what comes of it against an earlier report."""
    if all(isinstance(result, StartResult) for result in report.results):
        text = starts_to_markdown(report)
    else:
        text = to_markdown(report)
    compared = report.versus
    return text + (f"\n{versus_to_markdown(compared)}" if compared else "")
