"""Lists of cores: read strictly, written in their shortest form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.errors import UsageError
from orin_llm.host.cpu_set import cores_text, parse_cores, require_cores


@given(st.sets(st.integers(0, 1023)))
def test_what_is_written_is_read_again(cores: set[int]) -> None:
    assert parse_cores(cores_text(cores)) == cores


@given(st.text("0123456789-, x", max_size=12))
def test_any_text_is_a_set_or_a_usage_error(text: str) -> None:
    try:
        cores = parse_cores(text)
    except UsageError as error:
        assert repr(text) in str(error)
    else:
        assert cores_text(parse_cores(cores_text(cores))) == cores_text(cores)


@pytest.mark.parametrize(
    "text, shortest",
    [("", ""), ("3", "3"), ("0,1,2,3,6", "0-3,6"), (" 6 , 0 - 2", "0-2,6"), ("1,1-1", "1")],
)
def test_a_list_has_one_shortest_form(text: str, shortest: str) -> None:
    assert cores_text(parse_cores(text)) == shortest


@pytest.mark.parametrize("text", ["a", "-1", "1-", "3-1", "0,,1", "0-3-5", "1024", "0x1", "²", ","])
def test_other_lists_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="such as 0-3,6"):
        parse_cores(text)


def test_cores_that_the_process_may_not_use_are_named() -> None:
    allowed = frozenset({0, 1, 2, 5})
    require_cores(frozenset({0, 5}), allowed)
    require_cores(frozenset(), allowed)
    with pytest.raises(UsageError, match=r"cores 3-4,7, which .* it may use 0-2,5 "):
        require_cores(frozenset({2, 3, 4, 7}), allowed)
