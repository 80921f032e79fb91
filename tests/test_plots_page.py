"""Pages: text stays text, nothing comes from elsewhere, and a browser shows all of it."""

from __future__ import annotations

from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from browser import ask, dom
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.plots.charts import Series, line_chart, svg
from orin_llm.plots.page import (
    Section,
    chart_html,
    definitions_html,
    escape,
    html_page,
    markdown_table_html,
    table_html,
)

HOSTILE = "</p></td></svg><script>document.title='ran'</script><img src=x onerror=alert(1)>\"'&"


class Cells(HTMLParser):
    """The cells of the tables of a page, and every tag with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._in_cell = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        self._in_cell = tag in ("td", "th")
        if self._in_cell:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.rows[-1][-1] += data


def whole_page(text: str = "some text") -> str:
    """A page that has everything, each with this text in it."""
    chart = svg(line_chart([Series(text, [1, 2], [3, 4])], title=text, x_label=text, y_label=text))
    wide = table_html([text, *map(str, range(30))], [[text, *["12345.6"] * 30]])
    return html_page(
        text,
        [
            Section("", f'<p class="warning">{escape(text)}</p>'),
            Section(text, definitions_html([(text, text)]) + wide),
            Section("Charts", chart_html(chart, text) + chart_html(svg_of(7), text)),
        ],
    )


def svg_of(value: float) -> str:
    return svg(line_chart([Series("a", [1, 2], [1, value])], title="t", x_label="x", y_label="y"))


def test_no_text_becomes_a_tag() -> None:
    plain, hostile = (Cells(whole_page(text)) for text in ("some text", HOSTILE))
    assert [tag for tag, _ in plain.tags] == [tag for tag, _ in hostile.tags]
    assert hostile.rows[1][0] == HOSTILE


def test_nothing_is_fetched_from_elsewhere() -> None:
    page = whole_page()
    assert "@import" not in page
    for tag, attributes in Cells(page).tags:
        assert tag not in ("script", "link", "img", "iframe", "object", "embed")
        for name, value in attributes.items():
            if name in ("src", "href", "xlink:href", "action", "data"):
                assert value and value.startswith("#"), (tag, name, value)
    assert "url(" not in page.replace("url(#", "")


cells = st.text(st.characters(blacklist_categories=["C", "Z"]), max_size=8)


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=5))
def test_a_markdown_table_keeps_its_cells(rows: list[tuple[str, str]]) -> None:
    def line(row: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"

    clean = [[cell.replace("\\", "") for cell in row] for row in rows]
    text = "\n".join([line(["one", "two"]), "|---|--:|", *map(line, clean)])
    assert Cells(markdown_table_html(text)).rows == [["one", "two"], *clean]


@pytest.mark.parametrize("text", ["words", "| a |", "| a |\n| b |", "| a |\n|---|\n| b | c |"])
def test_what_is_no_markdown_table_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Markdown table"):
        markdown_table_html(text)


def test_an_empty_table_is_nothing() -> None:
    assert table_html(["a"], []) == markdown_table_html("") == definitions_html([]) == ""


def test_columns_of_numbers_are_aligned_to_the_right() -> None:
    rows = [["a 1", "1.5 ± 2", "", "-3", "127.0.0.1:80"], ["5", "2", "7", "−4 %", "12"]]
    page = Cells(table_html(["name", "x", "y", "z", "place"], rows))
    kinds = [bool(values) for tag, values in page.tags if tag == "td"]
    assert kinds == [False, True, True, True, False] * 2


MEASURES = """{
  inner: innerWidth, page: document.documentElement.scrollWidth,
  charts: [...document.querySelectorAll('svg.chart')].map(one => {
    const box = one.getBoundingClientRect(); return [box.width, box.height] }),
  lines: [...document.querySelectorAll('svg.chart path')].filter(
    one => one.getTotalLength() > 0).length,
  ground: getComputedStyle(document.body).backgroundColor,
  text: getComputedStyle(document.body).color,
  chart_text: getComputedStyle(document.querySelector('svg.chart text')).fill,
  rows: [...document.querySelectorAll('tr')].map(one => one.cells.length),
}"""


def luminance(colour: str) -> float:
    """Of `rgb(r, g, b)`, as WCAG 2 defines it."""
    parts = [int(part) / 255 for part in colour.strip("rgb()").split(",")]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("width", "dark"), [(1100, False), (500, True)])
def test_a_browser_shows_charts_and_tables_in_any_width_on_either_ground(
    width: int, dark: bool, tmp_path: Path
) -> None:
    found: dict[str, Any] = ask(whole_page(HOSTILE), MEASURES, tmp_path, width=width, dark=dark)
    assert found["inner"] == width
    assert found["page"] <= width  # only tables and charts scroll, not the page
    assert len(found["charts"]) == 2 and found["lines"] > 20
    assert all(across >= 600 and high > 200 for across, high in found["charts"])
    assert (luminance(found["ground"]) < 0.1) == dark
    assert contrast(found["ground"], found["text"]) >= 7
    assert contrast(found["ground"], found["chart_text"]) >= 7
    assert found["rows"] == [31, 31]


def test_a_page_lets_no_script_run_that_has_come_in(tmp_path: Path) -> None:
    script = "<script>document.title = 'ran'</script>"
    assert "<title>Kept</title>" in dom(html_page("Kept", [Section("", script)]), tmp_path)
