"""A report as one page: what was measured where, pictures, every table, all settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from orin_llm.bench.flat import flatten
from orin_llm.bench.pictures import pictures
from orin_llm.bench.report_markdown import report_to_markdown
from orin_llm.bench.result import Report
from orin_llm.bench.versus_markdown import versus_to_markdown
from orin_llm.plots.charts import svg
from orin_llm.plots.markdown_page import markdown_html
from orin_llm.plots.page import Section, chart_html, definitions_html, escape, html_page


def to_html(report: Report[Any]) -> str:
    """Self-contained: it needs no network and runs no script."""
    before, tables = _parted(report_to_markdown(replace(report, earlier=None)))
    drawn = [chart_html(svg(one.draw()), one.caption) for one in pictures(report)]
    sections = [
        Section("", markdown_html(before)),
        *_versus(report),
        *([Section("Figures", markdown_html(tables))] if tables.strip() else []),
        *([Section("Pictures", "\n".join(drawn))] if drawn else []),
        Section("Measured on", definitions_html(flatten(report.environment))),
        Section("Engines", "\n".join(_engines(report))),
    ]
    return html_page(_title(report), sections)


def _title(report: Report[Any]) -> str:
    model = report.environment.get("model")
    name = model.get("name") if isinstance(model, dict) else None
    return f"Benchmark of {name}" if name else "Benchmark"


def _parted(text: str) -> tuple[str, str]:
    """The text before the first table, and the rest."""
    lines = text.splitlines(keepends=True)
    first = next((n for n, line in enumerate(lines) if line.startswith("|")), len(lines))
    return "".join(lines[:first]), "".join(lines[first:])


def _versus(report: Report[Any]) -> Iterator[Section]:
    if found := report.versus:
        yield Section("Before and now", markdown_html(versus_to_markdown(found)))


def _engines(report: Report[Any]) -> Iterator[str]:
    """The settings of each contender once."""
    engines = {json.dumps(r.engine, sort_keys=True, default=str): r.engine for r in report.results}
    for engine in engines.values():
        settings = {name: value for name, value in flatten(engine) if name != "name"}
        yield f"<h3>{escape(engine.get('name', ''))}</h3>{definitions_html(settings.items())}"
