"""Our Markdown as a part of a page."""

from __future__ import annotations

from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.plots.markdown_page import markdown_html


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a & b", "<p>a &amp; b</p>"),
        ("one  \ntwo  ", "<p>one<br>\ntwo</p>"),
        ("one\n\ntwo", "<p>one</p>\n<p>two</p>"),
        ("**Not the same**: x", '<p class="warning"><strong>Not the same</strong>: x</p>'),
        ("say **it** in `a<b`", "<p>say <strong>it</strong> in <code>a&lt;b</code></p>"),
        ("## Head\ntext", "<h3>Head</h3><p>text</p>"),
        ("- a\n  more\n- `b`", "<ul><li>a\nmore</li><li><code>b</code></li></ul>"),
        ("    orin-llm run\n    <x>", "<pre>orin-llm run\n&lt;x&gt;</pre>"),
        ("```sh\na\n\nb\n```\n\nc", "<pre>a\n\nb</pre>\n<p>c</p>"),
        ("| no table", "<p>| no table</p>"),
        ("2 * 3 ** 4 and 5 ** 6 `", "<p>2 * 3 <strong> 4 and 5 </strong> 6 `</p>"),
        ("", ""),
    ],
)
def test_blocks_become_those_of_a_page(text: str, html: str) -> None:
    assert markdown_html(text) == html


def test_a_table_is_a_table() -> None:
    html = markdown_html("before\n\n| a | b |\n|---|--:|\n| x | 1 |\n\nafter")
    assert html.startswith("<p>before</p>") and html.endswith("<p>after</p>")
    assert "<td>x</td>" in html and '<td class="number">1</td>' in html


class Words(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text("ab<>&\"'`*|#- \n\\", max_size=60))
def test_any_text_gives_tags_that_close_and_loses_no_letter(text: str) -> None:
    found = Words(markdown_html(text))
    assert found.open == []
    assert sorted(c for c in unescape(found.text) if c in "ab<>&") == sorted(
        c for c in text if c in "ab<>&"
    )
