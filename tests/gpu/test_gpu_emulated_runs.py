"""Whole engines on the emulated GPU at other times of its work, and the command line on it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from completions import finish, start
from gpu import emulated as harness
from gpu.conftest import OpenEngine
from gpu.emulated import EmulatedGpu
from processes import environment, run

PROMPT = list(range(5, 40))


@pytest.fixture(scope="module")
def program() -> list[str]:
    return [sys.executable, harness.__file__]


@pytest.mark.parametrize("schedule", [0, 2, 3, 4])
def test_text_does_not_depend_on_when_work_runs(
    emulated: EmulatedGpu, open_engine: OpenEngine, small_model: Path, schedule: int
) -> None:
    late = finish(start(open_engine(small_model), PROMPT[:5], 3))
    emulated.set_schedule(schedule)
    assert finish(start(open_engine(small_model), PROMPT[:5], 3)) == late


@pytest.mark.parametrize("integrated", ["0", "1"])
def test_the_command_line_runs_on_it(
    emulated: EmulatedGpu, small_model: Path, program: list[str], integrated: str
) -> None:
    command = [*program, "run", "-m", str(small_model), "--raw", "-p", "hello", "-n", "3"]
    env = environment(ORIN_EMULATED_SCHEDULE="3", ORIN_EMULATED_INTEGRATED=integrated)
    answers = []
    for layers in ("-1", "0"):
        done = run([*command, "--temp", "0", "--json", "-ngl", layers], env=env)
        assert done.returncode == 0, done.stderr
        answers.append(json.loads(done.stdout)["token_ids"])
    assert answers[0] == answers[1] and len(answers[0]) == 3


def test_a_model_that_does_not_fit_is_refused(
    emulated: EmulatedGpu, small_model: Path, program: list[str]
) -> None:
    env = environment(ORIN_EMULATED_MEMORY_MIB="1")
    done = run(
        [*program, "run", "-m", str(small_model), "--raw", "-p", "hello", "-n", "3"], env=env
    )
    assert done.returncode == 1 and done.stderr.startswith("error: ")
