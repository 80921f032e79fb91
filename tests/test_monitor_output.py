"""The log's lines: whole, in order, and waited for by nobody. The rhythm of snapshots."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from monitor_support import START_MS, snapshot

from orin_llm.monitor import headless
from orin_llm.monitor.feed import next_due_s
from orin_llm.monitor.headless import Agent
from orin_llm.monitor.output import MAX_WAITING_BYTES, LineOutput
from orin_llm.monitor.recording import Recorder, Replay
from orin_llm.monitor.snapshot import Subject
from orin_llm.monitor.thresholds import Thresholds
from orin_llm.monitor.watch import Watch


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
    capacity = 1 << 16  # of a pipe
    for _ in range(2):
        before = output.left_out
        for _ in range(1000):
            output.add(line)
        taken = 1000 - (output.left_out - before)
        assert MAX_WAITING_BYTES - len(line) <= taken * len(line) <= MAX_WAITING_BYTES + capacity
        seen = 0
        while seen < taken * len(line):
            seen += len(os.read(reading, 1 << 16))
            output.write_on()
        assert not output.has_waiting


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


def test_at_the_end_lines_that_wait_are_still_written(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reading, writing = pipe
    monkeypatch.setattr(headless, "END_S", 60.0)
    file = tmp_path / "run.jsonl"
    recorder = Recorder(file, Subject("Board"), 0.1)
    recorder.add(snapshot(1))
    recorder.close()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writing, b"x" * 4096)
    output = LineOutput(writing)
    watch = Watch(Thresholds())
    replay = Replay(file)
    head = {"monitor": "1"}
    agent = Agent(replay, watch, output, head=head, recorder=None, commands=None, tell=print)
    seen = bytearray()

    def read() -> None:
        while seen.count(b"\n") < 2:
            seen.extend(os.read(reading, 4096))

    late = threading.Timer(0.3, read)
    late.daemon = True
    late.start()
    assert agent.run() is None
    late.join(60)
    replay.close()
    first, second = seen.lstrip(b"x").splitlines()
    assert json.loads(first) == head and json.loads(second)["at_ms"] == START_MS + 1000


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
