"""Memory, while tegrastats prints as fast as it can."""

from __future__ import annotations

import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from fakes import boards

from orin_llm.device.board import read_board
from orin_llm.device.sampler import Sampler
from orin_llm.device.sources import open_sensors

LINES_EACH, READINGS_EACH = 4_000, 30  # more readings than are kept, before the first look
TIMEOUT_S = 300


def test_lines_without_end_and_their_readings_take_no_more_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("jtop", "pynvml"):
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]
    machine = boards.jetson(tmp_path, boards.AGX_64_JP6)
    monkeypatch.setenv("PATH", machine.path)
    (machine.bin / "tegrastats").unlink()
    # Every line has a number of its own, in a word that is not known.
    line = f"{boards.AGX_64_JP6.line} NEW"
    machine.tool("tegrastats", f"exec awk 'BEGIN {{ for (;;) print \"{line}\" ++n }}'")
    sizes = []
    with open_sensors(read_board(machine.root), 100, root=machine.root) as sensors:
        sampler = Sampler(sensors, 100, kept=20)
        tracemalloc.start()
        try:
            for wanted in range(LINES_EACH, 5 * LINES_EACH, LINES_EACH):
                read_to_line(sampler, wanted)
                sizes.append(traced_bytes())
        finally:
            tracemalloc.stop()
    assert max(sizes) - sizes[0] < 40_000, sizes


def traced_bytes() -> int:
    """Without pathlib's: Python's table of all names grows there, in one large step."""
    kept = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, "*pathlib*")])
    return sum(entry.size for entry in kept.statistics("filename"))


def read_to_line(sampler: Sampler, wanted: int) -> None:
    """Take readings, of them some hundreds, until that line was printed."""
    deadline = time.monotonic() + TIMEOUT_S
    number = taken = 0
    while number < wanted or taken < READINGS_EACH:
        reading = sampler.sample()
        taken += 1
        number = max([number, *(int(word.removeprefix("NEW")) for word in reading.unknown
                                if word.startswith("NEW"))])  # fmt: skip
        assert time.monotonic() < deadline, f"line {number}"
