"""Programs that are asked something."""

from __future__ import annotations

import sys

import pytest

from orin_llm.host.programs import ask


def test_a_program_is_asked_without_input_and_both_streams_are_kept() -> None:
    program = "import sys; print(sys.stdin.read()); print('x\\udcff', file=sys.stderr); exit(3)"
    done = ask([sys.executable, "-c", program], 60)
    assert (done.returncode, done.stdout, done.stderr) == (3, "\n", "x\\udcff\n")


def test_one_that_does_not_end_is_killed_and_named() -> None:
    with pytest.raises(TimeoutError, match=r"sleep has not ended in 0\.1 s"):
        ask(["/bin/sleep", "1000"], 0.1)


def test_one_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        ask(["/nowhere/program"], 60)
