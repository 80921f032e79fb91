"""The command of an alert: what it is given, and what happens when it fails, hangs or floods."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from monitor_support import START_MS
from stats_support import until

from orin_llm.monitor import commands
from orin_llm.monitor.commands import AlertCommands
from orin_llm.monitor.state import Alert, AlertEvent

PATIENCE_S = 60.0


def event(number: int = 1, text: str = "temperature 90.5 °C (tj), above 85 °C") -> AlertEvent:
    alert = Alert("temperature_c", f"{number}-0", 90.5, 85.0, START_MS, text)
    return AlertEvent("raised", START_MS + 1, alert)


class Told(list[str]):
    """What goes wrong."""


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def runners() -> Iterator[list[AlertCommands]]:
    made: list[AlertCommands] = []
    yield made
    for runner in made:
        runner.close(0.0)
        until(lambda runner=runner: runner.has_ended, "its end")  # type: ignore[misc]


def run(
    runners: list[AlertCommands], told: Told, command: str, limit_s: float = PATIENCE_S
) -> AlertCommands:
    runners.append(AlertCommands(command, told.append, limit_s))
    return runners[-1]


def finish(runner: AlertCommands) -> None:
    runner.end()
    until(lambda: runner.has_ended, "the end of the commands")


def test_a_command_has_the_event_in_its_environment_and_on_its_input(
    runners: list[AlertCommands], told: Told, tmp_path: Path
) -> None:
    runner = run(runners, told, f"env -0 >{tmp_path}/env; cat >{tmp_path}/json")
    runner.add(event())
    finish(runner)
    rows = (row.partition("=") for row in (tmp_path / "env").read_text().split("\0"))
    found = {name: value for name, _, value in rows if name.startswith("ORIN_LLM_ALERT_")}
    assert found == {
        "ORIN_LLM_ALERT_EVENT": "raised",
        "ORIN_LLM_ALERT_RULE": "temperature_c",
        "ORIN_LLM_ALERT_SUBJECT": "1-0",
        "ORIN_LLM_ALERT_VALUE": "90.5",
        "ORIN_LLM_ALERT_THRESHOLD": "85",
        "ORIN_LLM_ALERT_TEXT": "temperature 90.5 °C (tj), above 85 °C",
        "ORIN_LLM_ALERT_HOST": socket.gethostname(),
    }
    assert json.loads((tmp_path / "json").read_bytes()) == event().to_json()
    assert told == []


def test_commands_run_one_after_the_other_in_the_order_of_events(
    runners: list[AlertCommands], told: Told, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    command = f"echo begin $ORIN_LLM_ALERT_SUBJECT >>{log}; sleep 0.01; echo end >>{log}"
    runner = run(runners, told, command)
    for number in range(5):
        runner.add(event(number))
    finish(runner)
    words = [word for number in range(5) for word in (f"begin {number}-0", "end")]
    assert log.read_text().splitlines() == words


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("exit 3", "temperature_c raised ended with exit status 3: exit 3"),
        ("kill -9 $$", "temperature_c raised ended with exit status -9"),
        ("/no/such/program", "ended with exit status 127"),
        ("if", "ended with exit status 2"),
    ],
)
def test_a_command_that_fails_is_told_and_the_next_one_runs(
    runners: list[AlertCommands], told: Told, tmp_path: Path, command: str, said: str
) -> None:
    runner = run(runners, told, command)
    runner.add(event(1))
    runner.add(event(2))
    finish(runner)
    assert len(told) == 2 and all(said in line for line in told)


def test_a_command_that_hangs_is_killed_with_all_it_started(
    runners: list[AlertCommands], told: Told, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    command = f"sleep 1000 & echo $! >>{pids}; echo $$ >>{pids}; wait"
    runner = run(runners, told, command, limit_s=2)
    runner.add(event())
    finish(runner)
    assert told == [f"the alert command for temperature_c raised was killed after 2 s: {command}"]
    assert len(pids.read_text().split()) == 2
    until(lambda: not any(is_running(int(pid)) for pid in pids.read_text().split()), "their end")


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_command_that_prints_a_lot_and_reads_nothing_is_no_hindrance(
    runners: list[AlertCommands], told: Told, capfd: pytest.CaptureFixture[str]
) -> None:
    runner = run(runners, told, "exec 0<&-; head -c 3000000 /dev/zero | tr '\\0' x; echo end")
    runner.add(event())
    finish(runner)
    out, err = capfd.readouterr()
    assert out == "" and len(err) == 3_000_004 and told == []


def test_who_adds_events_does_not_wait_and_what_is_too_much_is_told(
    runners: list[AlertCommands], told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "MAX_WAITING", 3)
    gate, log = tmp_path / "gate", tmp_path / "log"
    os.mkfifo(gate)
    command = f"echo $ORIN_LLM_ALERT_SUBJECT >>{log}; [ -e {tmp_path}/open ] || cat {gate}"
    runner = run(runners, told, command)
    runner.add(event(0))
    until(log.exists, "the first command")
    for number in range(1, 6):
        assert runner.has_room == (number <= 3)
        runner.add(event(number))
    assert told == ["3 alert commands wait already: none for temperature_c raised"] * 2
    (tmp_path / "open").touch()
    gate.write_text("")
    finish(runner)
    assert log.read_text().split() == ["0-0", "1-0", "2-0", "3-0"]


def test_at_the_end_the_running_command_may_finish(
    runners: list[AlertCommands], told: Told, tmp_path: Path
) -> None:
    runner = run(runners, told, f"sleep 0.2; touch {tmp_path}/done")
    runner.add(event())
    runner.close(PATIENCE_S)
    assert runner.has_ended and (tmp_path / "done").exists() and told == []


def test_at_the_end_a_command_that_does_not_is_killed_and_the_rest_is_told(
    runners: list[AlertCommands], told: Told, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    runner = run(runners, told, f"echo $$ >>{started}; sleep 1000")
    for number in range(3):
        runner.add(event(number))
    until(lambda: started.exists() and started.read_text().endswith("\n"), "the command")
    runner.close(0.1)
    until(lambda: runner.has_ended, "the end")
    assert "was killed, for the monitor ends" in told[0]
    assert told[1] == "the monitor ends: the alert command was not run for 2 events"
    (pid,) = started.read_text().split()
    assert not is_running(int(pid))


def test_texts_that_no_variable_can_hold_are_made_to_fit(
    runners: list[AlertCommands], told: Told, tmp_path: Path
) -> None:
    runner = run(runners, told, f'printf %s "$ORIN_LLM_ALERT_TEXT" >{tmp_path}/text')
    runner.add(event(text="a\0b\ud800c"))
    finish(runner)
    assert (tmp_path / "text").read_text() == "a?b?c" and told == []


def test_a_shell_that_cannot_be_started_is_told(
    runners: list[AlertCommands], told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(subprocess, "Popen", no_memory)
    runner = run(runners, told, "true")
    runner.add(event())
    finish(runner)
    assert len(told) == 1 and "cannot be run: " in told[0] and "Cannot allocate" in told[0]
