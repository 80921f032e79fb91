"""What `orin-llm monitor --headless` records, and its log when that is replayed."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from fakes import boards
from headless_monitor import QUICK, board_at_50_w, monitor, on, print_temperature
from monitor_support import engine_process
from processes import CLI, environment, run
from stats_support import until


@pytest.fixture
def machine(tmp_path: Path) -> boards.Machine:
    return board_at_50_w(tmp_path / "board")


def test_a_killed_engine_runs_the_command_and_is_replayed_as_it_was(
    tmp_path: Path, tiny_model: Path
) -> None:
    folder, log, file = tmp_path / "run", tmp_path / "alerts", tmp_path / "run.jsonl"
    command = f'echo "$ORIN_LLM_ALERT_EVENT $ORIN_LLM_ALERT_TEXT" >>{log}'
    arguments = ("--source", "procfs", "--alert-cmd", command, "--record", str(file))
    with monitor(folder, *QUICK, *arguments) as watched:
        with engine_process(tiny_model, folder) as process:
            name = watched.until(lambda line: bool(line["engines"]))["engines"][0]["name"]
            process.kill()
            sample = watched.until(lambda line: bool(line["alerts"]))
        assert [(a["rule"], a["subject"]) for a in sample["alerts"]] == [("engine_lost", name)]
        assert sample["engines"] == []
        watched.until(lambda line: bool(line["alerts"]))
        assert watched.end() == 0
        assert watched.events == ["raised engine_lost"]
    said = f"raised engine {name}: tiny.gguf was killed or has crashed: its socket is left"
    assert log.read_text().startswith(said) and log.read_text().count("\n") == 1
    replay = [*CLI, "monitor", "--headless", "--replay", str(file)]
    done = run(replay, env=environment(XDG_CONFIG_HOME=str(tmp_path)))
    assert [json.loads(line) for line in done.stdout.splitlines()] == watched.lines


def test_a_recording_replayed_gives_the_same_log_and_runs_the_command(
    tmp_path: Path, machine: boards.Machine
) -> None:
    file, alerts = tmp_path / "run.jsonl", tmp_path / "alerts"
    arguments = (*QUICK, *on(machine), "--record", str(file))
    with monitor(tmp_path / "run", *arguments, path=machine.path) as watched:
        for degrees in (90, 70):
            print_temperature(machine, degrees)
            watched.until(lambda line: line["temperature_c"] == degrees)  # noqa: B023
        machine.tegrastats("not known")
        watched.until(lambda line: "tegrastats" in line["problems"])
        assert watched.end() == 0
        seen = watched.lines
    assert watched.events == ["raised temperature_c", "cleared temperature_c"]
    command = f"echo $ORIN_LLM_ALERT_EVENT >>{alerts}"
    env = environment(XDG_CONFIG_HOME=str(tmp_path))
    replay = [*CLI, "monitor", "--headless", "--replay", str(file)]
    done = run([*replay, "--alert-cmd", command], env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line) for line in done.stdout.splitlines()] == seen
    assert alerts.read_text() == "raised\ncleared\n"
    run(replay, env=env)
    assert alerts.read_text() == "raised\ncleared\n"


def test_ctrl_c_ends_a_replay_that_waits_for_a_command(
    tmp_path: Path, machine: boards.Machine
) -> None:
    print_temperature(machine, 90)
    file, started = tmp_path / "run.jsonl", tmp_path / "started"
    arguments = (*QUICK, *on(machine), "--record", str(file))
    with monitor(tmp_path / "run", *arguments, path=machine.path) as watched:
        watched.until(lambda line: bool(line["alerts"]))
        watched.end()
    arguments = ("--headless", "--replay", str(file), "--alert-cmd", f"touch {started}; sleep 1000")
    with monitor(tmp_path / "again", *arguments) as watched:
        until(started.exists, "the command")
        assert watched.end(signal.SIGINT) == 130
        assert "was killed, for the monitor ends" in watched.said


def test_a_recording_that_cannot_go_on_is_told_and_the_log_goes_on(tmp_path: Path) -> None:
    arguments = (*QUICK, "--source", "procfs", "--record", "/dev/full")
    done = run([*CLI, "monitor", *arguments], env=environment(XDG_RUNTIME_DIR=str(tmp_path)))
    assert done.returncode == 2 and "/dev/full is there already" in done.stderr
    limited = f'ulimit -f 1; exec "$@" --record {tmp_path}/run.jsonl'
    process = subprocess.Popen(
        ["bash", "-c", limited, "bash", *CLI, "monitor", *arguments[:-2]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(XDG_RUNTIME_DIR=str(tmp_path)),
    )
    assert process.stdout is not None and process.stderr is not None
    for _ in range(10):
        assert process.stdout.readline().startswith(b"{")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert said.decode().count("run.jsonl ends here, nothing more is recorded: File too large") == 1
