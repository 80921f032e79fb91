"""The log's lines: whole, in order, and waited for by nobody. The rhythm of snapshots."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.monitor.headless import next_due_s
from orin_llm.monitor.output import MAX_WAITING_BYTES, LineOutput


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def test_lines_come_whole_and_in_order_however_slowly_they_are_read(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    output = LineOutput(writing)
    lines = [f"{number} {'x' * (number * 977 % 9000)}\n" for number in range(100)]
    for line in lines:
        output.add(line)
    assert output.has_waiting and output.left_out == 0
    seen = b""
    while len(seen) < sum(map(len, lines)):
        seen += os.read(reading, 5000)
        output.write_on()
    assert seen.decode() == "".join(lines) and not output.has_waiting


def test_what_waits_is_bounded_and_what_is_left_out_is_counted(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    output = LineOutput(writing)
    line = "x" * 9999 + "\n"
    for _ in range(1000):
        output.add(line)
    taken = 1000 - output.left_out
    capacity = 1 << 16  # of a pipe
    assert MAX_WAITING_BYTES - len(line) <= taken * len(line) <= MAX_WAITING_BYTES + capacity
    seen = 0
    while seen < taken * len(line):
        seen += len(os.read(reading, 1 << 16))
        output.write_on()
    assert not output.has_waiting
    output.add("more\n")
    assert os.read(reading, 100) == b"more\n"


def test_when_nobody_reads_any_more_that_is_an_error() -> None:
    reading, writing = os.pipe()
    output = LineOutput(writing)
    output.add("heard\n")
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        output.add("unheard\n")
    os.close(writing)


def test_a_pipe_that_its_maker_wants_no_waits_on_is_served_too(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.set_blocking(writing, False)
    output = LineOutput(writing)
    for _ in range(20):
        output.add("x" * 9999 + "\n")
    seen = 0
    while seen < 200_000:
        seen += len(os.read(reading, 3000))
        output.write_on()
    assert not output.has_waiting


@given(st.floats(0, 1e6), st.floats(0.1, 3600), st.floats(0, 1e6))
def test_the_next_time_is_ahead_in_the_rhythm_and_nothing_is_made_up(
    due_s: float, interval_s: float, late_s: float
) -> None:
    now_s = due_s + late_s
    found = next_due_s(due_s, interval_s, now_s)
    tolerance = 1e-6 * max(1.0, found)
    assert now_s - tolerance <= found <= now_s + interval_s + tolerance
    beats = (found - due_s) / interval_s
    assert beats >= 1 - 1e-6 and abs(beats - round(beats)) * interval_s <= tolerance
