"""Wrapping of streamed text: no word is cut, nothing else changes, however the text comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from orin_llm.cli.wrap import LineWrapper

WORDS = st.text("ab.é́日本語「」。ー한글👍🏽👨‍👩‍👧`~- \t\n", max_size=120)
PLAIN = st.lists(
    st.sampled_from(["a", "on", "word", "é", "👍🏽", "sentence.", "x" * 25]), max_size=60
)


def wrapped(text: str, columns: int, *, pieces: int = 0) -> str:
    """The text wrapped whole, or fed in pieces of so many characters."""
    wrapper, step = LineWrapper(), pieces or max(1, len(text))
    out = [wrapper.feed(text[i : i + step], columns) for i in range(0, len(text), step)]
    return "".join([*out, wrapper.flush(columns)])


@pytest.mark.parametrize(
    "text, rows",
    [
        ("the quick brown fox", ["the quick", "brown fox"]),
        ("the  quick   brown", ["the  quick", "brown"]),
        ("exactly 10 chars", ["exactly 10", "chars"]),
        ("a https://example.org/long b", ["a", "https://example.org/long b"]),
        ("one\n\ntwo three four\n", ["one", "", "two three", "four", ""]),
        ("日本語の文章です。はい", ["日本語の文", "章です。は", "い"]),
        ("日本語の文。はい", ["日本語の", "文。はい"]),
        ("日本語の「文」", ["日本語の", "「文」"]),
        ("日本語のabc", ["日本語の", "abc"]),
        ("コーヒーコーヒー", ["コーヒー", "コーヒー"]),
        ("tab\there or", ["tab", "here or"]),
        ("see 👨‍👩‍👧 👍🏽 ok", ["see 👨‍👩‍👧 👍🏽", "ok"]),
    ],
)
def test_lines_break_between_words(text: str, rows: list[str]) -> None:
    assert wrapped(text, 10).split("\n") == rows


@pytest.mark.parametrize(
    "text",
    [
        "    for name in names: print(name)\n",
        "\tif one and two and three:\n",
        "```python\nfor name in names: print(name)\n\nreturn one and two\n```\n",
        "~~~\n```\nthis is no end of the block\n~~~\n",
        "````\n```\nthis is no end of the block\n````\n",
        "```\n```python\nthis is no end of the block\n```\n",
    ],
)
def test_code_and_lines_that_begin_with_blanks_stay_as_they_are(text: str) -> None:
    assert wrapped(text, 10) == text
    assert wrapped(text + "here words wrap", 10) == text + "here words\nwrap"


def test_code_inside_a_line_opens_no_block() -> None:
    assert wrapped("```x```\nhere words wrap", 10) == "```x```\nhere words\nwrap"


@given(PLAIN, st.integers(1, 40))
def test_only_what_is_longer_than_a_row_passes_the_edge(words: list[str], columns: int) -> None:
    rows = wrapped(" ".join(words), columns).split("\n")
    assert [word for row in rows for word in row.split(" ") if word] == words
    for row in rows:
        first, blank, rest = row.partition(" ")
        used = (cell_len(first) - 1) % columns + 1  # a long word goes on for several rows
        assert used + cell_len(blank + rest) <= columns or not rest


@given(WORDS, st.integers(1, 30), st.integers(1, 7))
def test_the_pieces_in_which_a_text_comes_change_nothing(
    text: str, columns: int, pieces: int
) -> None:
    assert wrapped(text, columns, pieces=pieces) == wrapped(text, columns)


@given(WORDS, st.lists(st.integers(1, 30), min_size=1))
def test_nothing_is_lost_while_the_terminal_is_resized(text: str, widths: list[int]) -> None:
    wrapper = LineWrapper()
    out = "".join(wrapper.feed(char, widths[i % len(widths)]) for i, char in enumerate(text))
    out += wrapper.flush(widths[0])
    assert "".join(out.split()) == "".join(text.split())


def test_a_word_is_written_at_once_when_it_cannot_move_any_more() -> None:
    wrapper = LineWrapper()
    assert wrapper.feed("quick bro", 10) == "quick"
    assert wrapper.feed("wn", 10) == "\nbrown"
    assert wrapper.feed("ie", 10) == "ie"
    assert wrapper.feed(" a", 10) == ""
    assert wrapper.flush(10) == " a"
