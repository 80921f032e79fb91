"""Lists, ranges and drawn lengths, as the benchmark's flags write them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.bench.lengths import MAX_VALUES, Lengths, parse_lengths, parse_numbers
from orin_llm.errors import UsageError

small = st.integers(1, 500)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("7", [7]),
        ("1,4, 16", [1, 4, 16]),
        ("3-6", [3, 4, 5, 6]),
        ("128-512+128", [128, 256, 384, 512]),
        ("100-250+100", [100, 200]),
        ("1-16*2", [1, 2, 4, 8, 16]),
        ("5-5", [5]),
        ("9,1-3,9", [9, 1, 2, 3, 9]),
    ],
)
def test_lists_and_ranges_are_written_out(text: str, numbers: list[int]) -> None:
    assert parse_numbers(text, "-p") == numbers


@given(small, small, small)
def test_a_range_is_pythons_with_its_end(first: int, more: int, step: int) -> None:
    found = parse_numbers(f"{first}-{first + more}+{step}", "-p")
    assert found == list(range(first, first + more + 1, step))


@pytest.mark.parametrize(
    "text",
    ["", "x", "1,", "-5", "5-3", "1-9+0", "1-9*1", "0-8*2", "1-9-2", "1.5", "²", "1..2"],
)
def test_what_is_no_number_and_no_range_is_refused_by_flag(text: str) -> None:
    with pytest.raises(UsageError, match="^-np "):
        parse_numbers(text, "-np")


def test_numbers_below_the_least_and_above_any_context_are_refused() -> None:
    assert parse_numbers("0", "-d") == [0]
    for text in ("0", "1-0"):
        with pytest.raises(UsageError):
            parse_numbers(text, "-p", 1)
    for text in ("4194305", "1,99999999999999999999"):
        with pytest.raises(UsageError, match="expected 0 … 4194304"):
            parse_numbers(text, "-p")


@pytest.mark.parametrize("text", ["{}", "1,{}", "{}-9", "1-{}", "1-9+{}", "1-9*{}"])
def test_more_digits_than_python_reads_are_refused_by_flag(text: str) -> None:
    with pytest.raises(
        UsageError, match="^-p has a number of 5000 digits: expected at most 4194304"
    ):
        parse_numbers(text.format("9" * 5000), "-p")
    for drawn in ("{}..9", "1..{}"):
        with pytest.raises(UsageError, match="^-n has a number of 5000 digits"):
            parse_lengths(drawn.format("9" * 5000), "-n")


def test_a_range_of_too_many_values_is_refused() -> None:
    assert len(parse_numbers(f"1-{MAX_VALUES}", "-p")) == MAX_VALUES
    with pytest.raises(UsageError, match="more than 1000 values"):
        parse_numbers(f"1-{MAX_VALUES + 1}", "-p")


def test_lengths_are_fixed_or_drawn() -> None:
    assert parse_lengths("512,64..2048,1-2", "-p") == [
        Lengths(512, 512),
        Lengths(64, 2048),
        Lengths(1, 1),
        Lengths(2, 2),
    ]
    assert [str(length) for length in parse_lengths("7,3..9", "-p")] == ["7", "3..9"]


@pytest.mark.parametrize("text", ["9..3", "0..5", "1..", "1..2..3", "1..9999999"])
def test_a_range_to_draw_from_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="^-n "):
        parse_lengths(text, "-n")


@given(small, small, st.integers())
def test_drawn_lengths_lie_in_the_range_and_follow_the_seed(low: int, more: int, seed: int) -> None:
    lengths = Lengths(low, low + more)
    first, second = random.Random(seed), random.Random(seed)
    drawn = [lengths.draw(first) for _ in range(20)]
    assert all(low <= length <= low + more for length in drawn)
    assert drawn == [lengths.draw(second) for _ in range(20)]


def test_both_ends_of_a_range_are_drawn() -> None:
    generator = random.Random(0)
    assert {Lengths(1, 3).draw(generator) for _ in range(100)} == {1, 2, 3}
