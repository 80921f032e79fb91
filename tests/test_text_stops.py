"""Stop strings: found in any split, nothing of them shown, nothing else held back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.errors import UsageError
from orin_llm.text.stops import StopMatcher

# Two letters make overlaps and repeated beginnings likely.
STOPS = st.lists(st.text("ab", min_size=1, max_size=4), max_size=4)
PIECES = st.lists(st.text("abé", max_size=4), max_size=12)


def first_stop(text: str, stops: list[str]) -> int | None:
    """Where the answer ends: reading letter by letter until the text ends with a stop string."""
    for end in range(len(text) + 1):
        lengths = [len(stop) for stop in stops if text[:end].endswith(stop)]
        if lengths:
            return end - max(lengths)
    return None


@given(STOPS, PIECES)
def test_any_split_stops_where_a_naive_search_does(stops: list[str], pieces: list[str]) -> None:
    matcher = StopMatcher(stops)
    shown, hit = "", False
    for piece in pieces:
        text, hit = matcher.push(piece)
        shown += text
        if hit:
            break
    shown += matcher.flush()
    whole = "".join(pieces)
    begin = first_stop(whole, stops)
    assert hit == (begin is not None)
    assert shown == whole[:begin]


@given(STOPS, PIECES)
def test_only_a_possible_beginning_is_held_back(stops: list[str], pieces: list[str]) -> None:
    matcher = StopMatcher(stops)
    seen = shown = ""
    for piece in pieces:
        text, hit = matcher.push(piece)
        seen, shown = seen + piece, shown + text
        if hit:
            return
        held = seen[len(shown) :]
        beginnings = [end for end in range(len(seen) + 1) if any_begins(stops, seen[end:])]
        assert held == seen[min(beginnings) :]


def any_begins(stops: list[str], text: str) -> bool:
    return text == "" or any(stop.startswith(text) for stop in stops)


def test_the_stop_that_is_complete_first_wins() -> None:
    assert StopMatcher(("abcd", "bc")).push("xabcd") == ("xa", True)
    assert StopMatcher(("bc", "abc")).push("xabc") == ("x", True)


def test_text_that_did_not_become_a_stop_comes_out() -> None:
    matcher = StopMatcher(("</s>",))
    assert matcher.push("a </") == ("a ", False)
    assert matcher.push("b>") == ("</b>", False)
    assert matcher.push("<") == ("", False)
    assert matcher.flush() == "<"


def test_nothing_comes_out_after_a_stop() -> None:
    matcher = StopMatcher(("END",))
    assert matcher.push("one END two") == ("one ", True)
    assert matcher.push("three") == ("", True)
    assert matcher.flush() == ""


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(UsageError, match="empty"):
        StopMatcher(("",))
