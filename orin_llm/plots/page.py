"""A page of HTML in one file: readable without network, in light and in dark, and printed.

Text goes in through the functions here, which escape it; `Section.body_html` is taken as it is.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orin_llm.plots.page_style import STYLE

# Nothing is fetched and nothing runs, whatever a text has brought in.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_PIPE = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True)
class Section:
    """A part of a page. Without a heading it stands right under the title."""

    heading: str
    body_html: str


def html_page(title: str, sections: Sequence[Section]) -> str:
    """The whole document; with links to its sections where there are more than two."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        "</head>",
        "<body>",
        "<main>",
        f"<h1>{escape(title)}</h1>",
    ]
    headings = [(n, section.heading) for n, section in enumerate(sections) if section.heading]
    if len(headings) > 2:
        links = (f'<a href="#s{number}">{escape(heading)}</a>' for number, heading in headings)
        parts.append(f"<nav>{' '.join(links)}</nav>")
    for number, section in enumerate(sections):
        heading = [f"<h2>{escape(section.heading)}</h2>"] if section.heading else []
        parts += [f'<section id="s{number}">', *heading, section.body_html, "</section>"]
    return "\n".join([*parts, "</main>", "</body>", "</html>", ""])


def escape(text: object) -> str:
    """Any value as text of a page, also inside of quotes."""
    return html.escape(str(text), quote=True)


def chart_html(svg: str, caption: str = "") -> str:
    """A chart (charts.svg) with its caption; where it is too narrow it scrolls."""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure><div class="scroll" tabindex="0">{svg}</div>{below}</figure>'


def definitions_html(pairs: Iterable[tuple[str, object]]) -> str:
    """Names with their values; nothing without pairs."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs)
    return f"<dl>{rows}</dl>" if rows else ""


def table_html(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table that scrolls where it is too wide; columns of numbers are aligned to the right.

    Nothing without rows.
    """
    body = [list(row) for row in rows]
    if not body:
        return ""
    numbers = [all(_is_number(row[column]) for row in body) for column in range(len(heads))]

    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f'<{tag} class="number">{escape(cell)}</{tag}>'
            if is_number
            else f"<{tag}>{escape(cell)}</{tag}>"
            for cell, is_number in zip(cells, numbers, strict=True)
        )

    lines = "\n".join(f"<tr>{line('td', row)}</tr>" for row in body)
    return (
        f'<div class="scroll" tabindex="0"><table>\n<thead><tr>{line("th", heads)}</tr></thead>\n'
        f"<tbody>\n{lines}\n</tbody>\n</table></div>"
    )


def markdown_table_html(table: str) -> str:
    """A Markdown table (heads, a rule, rows; `\\|` in a cell is a bar) as one of the page.

    Nothing for no text.

    Raises:
        ValueError: it is no such table.
    """
    lines = [line.strip() for line in table.strip().splitlines()]
    if not lines:
        return ""
    rows = [_cells(line) for line in lines]
    if len(rows) < 2 or len({len(row) for row in rows}) != 1 or not _is_rule(rows[1]):
        raise ValueError("expected a Markdown table: heads, a rule, rows of as many cells")
    return table_html(rows[0], rows[2:])


def _cells(line: str) -> list[str]:
    inner = line.removeprefix("|").removesuffix("|")
    return [cell.strip().replace("\\|", "|") for cell in _PIPE.split(inner)]


def _is_rule(cells: Sequence[str]) -> bool:
    return all(re.fullmatch(":?-+:?", cell) for cell in cells)


def _is_number(cell: str) -> bool:
    """`12`, `-3.5`, `20.8 ± 0.6`, `31 %`; no address or date."""
    return cell == "" or bool(re.fullmatch(r"[-+−]?\d[\d.,]*( .*)?", cell))
