"""The check's steps: none stops the others, each leaves its entry, a second call goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checking.budget import fit
from checking.command import started
from checking.ended import Ended, end, held
from checking.record import Record, read_record
from checking.run import Run
from checking.steps import Context, Found, Step, StepFailed
from orin_llm.errors import UsageError
from orin_llm.host.signals import handled

OF = {"commit": "abc", "device": "GPU-1"}


def well(context: Context) -> Found:
    return {"value": 1}


def badly(context: Context) -> Found:
    raise StepFailed("it is broken", {"half": 2})


def step(name: str, run: Callable[[Context], Found] = well, **changes: object) -> Step:
    values = {"limit_s": 60.0, "expected_s": 1.0, "rank": 1} | changes
    return Step(name, "something", run, **values)  # type: ignore[arg-type]


def run(folder: Path, *steps: Step, total_s: float = 3600) -> dict[str, dict[str, object]]:
    """Run them; the entries that are in the file then."""
    record = Record(folder / "result.json", OF)
    Run(record, Context(folder), total_s, lambda line: None, "scripts/a_check.sh").steps(steps)
    entries: dict[str, dict[str, object]] = read_record(record.path)["steps"]
    return entries


def test_a_failed_step_keeps_what_it_had_and_does_not_stop_the_others(tmp_path: Path) -> None:
    entries = run(tmp_path, step("a", badly), step("b"))
    assert (entries["a"]["status"], entries["a"]["result"]) == ("failed", {"half": 2})
    assert entries["a"]["error"] == "it is broken"
    assert (entries["b"]["status"], entries["b"]["result"]) == ("done", {"value": 1})


@pytest.mark.parametrize(
    "error", [OSError("disk"), ValueError("bad JSON"), UsageError("no flag"), TypeError("a bug")]
)
def test_an_error_of_a_step_is_its_own(tmp_path: Path, error: Exception) -> None:
    def raises(context: Context) -> Found:
        raise error

    entries = run(tmp_path, step("a", raises), step("b"))
    assert entries["a"]["status"] == "failed" and str(error) in str(entries["a"]["error"])
    assert entries["b"]["status"] == "done"


def test_a_step_without_what_it_needs_is_skipped_and_says_why(tmp_path: Path) -> None:
    entries = run(tmp_path, step("a", badly), step("b", needs=("a",)), step("c", needs=("x",)))
    assert entries["b"]["status"] == "skipped"
    assert entries["b"]["error"] == "needs a, which is failed"
    assert str(entries["c"]["error"]).endswith("not done: scripts/a_check.sh --only x")


def test_a_program_is_ended_at_the_limit_of_its_step_with_all_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    def slow(context: Context) -> Found:
        script = f"sleep 1000 & echo $! >{pid}; trap '' INT; wait; wait"
        context.need(["bash", "-c", script])
        return {}

    begin = time.monotonic()
    entries = run(tmp_path, step("slow", slow, limit_s=0.5), step("next"))
    assert time.monotonic() - begin < 60
    assert entries["slow"]["status"] == "failed"
    assert "ended by its time limit" in str(entries["slow"]["error"])
    assert entries["next"]["status"] == "done"
    while _runs(int(pid.read_text())):  # it is killed, and may not have ended yet
        assert time.monotonic() - begin < 60
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_program_is_started_leaves_none(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = []

    class Popen(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            processes.append(self)
            signal.raise_signal(number)

    monkeypatch.setattr(subprocess, "Popen", Popen)
    ended = pytest.raises(Ended)
    with handled(end, ignored_too=True), ended as raised, started(["sleep", "600"]):
        pytest.fail("the signal has not asked for the end")
    assert raised.value.number == number
    assert [process.poll() for process in processes] == [-signal.SIGINT]


def test_a_signal_while_a_program_cannot_be_started_is_not_lost() -> None:
    with handled(end, ignored_too=True), pytest.raises(Ended), held():
        signal.raise_signal(signal.SIGTERM)
        raise FileNotFoundError("no program")


def test_what_a_program_says_is_in_the_error_and_in_its_log(tmp_path: Path) -> None:
    def fails(context: Context) -> Found:
        context.need([sys.executable, "-c", "print(7); raise SystemExit('no model')"])
        return {}

    entries = run(tmp_path, step("a", fails))
    assert "ended by exit status 1\n  no model" in str(entries["a"]["error"])
    assert (tmp_path / "logs/a.out").read_text() == "7\n"
    commands = entries["a"]["commands"]
    assert isinstance(commands, list) and "no model" in commands[0]


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    def fails(context: Context) -> Found:
        return {"out": context.need(["no-such-program"]).out}

    assert "no-such-program cannot be started" in str(run(tmp_path, step("a", fails))["a"]["error"])


def test_an_interruption_is_written_and_what_was_done_is_kept(tmp_path: Path) -> None:
    def interrupted(context: Context) -> Found:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, step("a"), step("b", interrupted), step("c"))
    record = Record(tmp_path / "result.json", OF)
    assert record.is_done("a") and not record.is_done("b")
    assert record.steps["b"]["status"] == "interrupted" and "c" not in record.steps


def test_what_was_done_once_is_replaced_by_what_it_does_now_but_not_by_nothing(
    tmp_path: Path,
) -> None:
    run(tmp_path, step("a"))
    assert run(tmp_path, step("a", needs=("x",)))["a"]["status"] == "done"
    assert run(tmp_path, step("a"), total_s=-1)["a"]["status"] == "done"
    assert run(tmp_path, step("a", badly))["a"]["status"] == "failed"


def test_a_file_of_another_gpu_or_commit_is_not_gone_on_with(tmp_path: Path) -> None:
    run(tmp_path, step("a"))
    with pytest.raises(UsageError, match=r"is of commit abc, device GPU-1.*device GPU-2.*--out"):
        Record(tmp_path / "result.json", {"commit": "abc", "device": "GPU-2"})


@pytest.mark.parametrize("text", ["", "[]", '{"format": 99, "steps": {}}', '{"steps": {}}'])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(UsageError, match="is no file of results"):
        Record(tmp_path / "x.json", OF)


def test_the_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    record = Record(tmp_path / "result.json", OF)
    record.put("a", {"status": "done"})
    with record.path.open() as reader:
        record.put("b", {"status": "done"})
        assert list(json.load(reader)["steps"]) == ["a"]
    assert os.listdir(tmp_path) == ["result.json"]


def test_what_the_time_does_not_suffice_for_is_dropped_and_told(tmp_path: Path) -> None:
    steps = [step("a", rank=1, expected_s=30), step("b", rank=3, expected_s=30), step("c", rank=2)]
    entries = run(tmp_path, *steps, total_s=45)
    assert {name: entry["status"] for name, entry in entries.items()} == {
        "a": "done", "b": "dropped", "c": "done"
    }  # fmt: skip
    assert "--minutes" in str(entries["b"]["error"])


def test_a_model_for_nothing_is_dropped_with_what_needed_it() -> None:
    model = step("models.8b", rank=1, expected_s=50, serves=True)
    kept, dropped = fit([step("a"), model, step("decode.8b", rank=2, needs=("models.8b",))], 20)
    assert [one.name for one in kept] == ["a"]
    assert {one.name for one in dropped} == {"models.8b", "decode.8b"}


STEPS = st.lists(
    st.builds(
        lambda n, rank, seconds: step(str(n), rank=rank, expected_s=seconds),
        st.integers(),
        st.integers(0, 5),
        st.floats(1, 100),
    ),
    max_size=8,
    unique_by=lambda one: one.name,
)


@given(STEPS, st.floats(-10, 500))
def test_the_most_important_steps_that_fit_are_kept_in_their_order(
    steps: list[Step], left_s: float
) -> None:
    kept, dropped = fit(steps, left_s)
    assert [one for one in steps if one in kept] == kept
    assert len(kept) + len(dropped) == len(steps)
    assert all(one.rank >= other.rank for one in dropped for other in kept)
    assert len(kept) <= 1 or sum(one.expected_s for one in kept) <= left_s
    assert bool(kept) == bool(steps and left_s > 0)
