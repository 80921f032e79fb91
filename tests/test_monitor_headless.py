"""`orin-llm monitor --headless` as a process: its log, its alerts, its end."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes import boards
from monitor_support import ask, engine_process
from processes import CLI, environment, run
from stats_support import until

from orin_llm import __version__

QUICK = ("--headless", "--interval", "0.1")


@pytest.fixture
def machine(tmp_path: Path) -> boards.Machine:
    """A board in a mode of 50 W, which its 31 W do not reach."""
    made = boards.jetson(tmp_path / "board", boards.replace(boards.AGX_64_JP6, mode="MODE_50W"))
    print_temperature(made, 56)
    return made


def print_temperature(machine: boards.Machine, degrees: float) -> None:
    """From now on, tegrastats prints this one."""
    line = boards.AGX_64_JP6.line.replace("tj@56.0C", f"tj@{degrees}C")
    assert f"tj@{degrees}C" in line
    machine.tegrastats(line)


class Watched:
    """A monitor that runs, and what it has printed so far."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self._out, self._err = folder / "out", folder / "err"

    @property
    def lines(self) -> list[dict[str, Any]]:
        whole = self._out.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    @property
    def samples(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if "at_ms" in line and "event" not in line]

    @property
    def events(self) -> list[str]:
        return [f"{line['event']} {line['rule']}" for line in self.lines if "event" in line]

    @property
    def said(self) -> str:
        return self._err.read_text()

    def until(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first sample from now on that fits."""
        first = len(self.samples)
        until(lambda: any(map(fits, self.samples[first:])), f"a sample; {self.said}")
        return next(filter(fits, self.samples[first:]))

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def monitor(folder: Path, *arguments: str, path: str = "/usr/bin:/bin") -> Iterator[Watched]:
    """A headless monitor, from its first sample on. It looks for engines in its folder."""
    folder.mkdir(exist_ok=True)
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen(
            [*CLI, "monitor", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environment(
                PATH=path,
                XDG_RUNTIME_DIR=str(folder),
                XDG_CONFIG_HOME=str(folder),
                TMPDIR=str(folder),
            ),
        )
    watched = Watched(process, folder)
    try:
        until(lambda: bool(watched.samples) or process.poll() is not None, "the first line")
        yield watched
    finally:
        process.kill()
        process.wait()


def test_the_first_line_tells_what_is_watched_and_with_which_thresholds(
    tmp_path: Path, machine: boards.Machine
) -> None:
    config = tmp_path / "mine.toml"
    config.write_text("[temperature_c]\nabove = 70")
    with monitor(tmp_path / "run", *QUICK, *on(machine), "--config", str(config)) as watched:
        assert watched.end() == 0
        head = watched.lines[0]
    assert set(head) == {"monitor", "host", "machine", "thresholds", "config"}
    assert (head["monitor"], head["config"]) == (__version__, str(config))
    assert head["host"] == head["machine"]["host"] == socket.gethostname()
    assert head["machine"]["mode"] == "MODE_50W"
    rule = {"above": 70, "clear": pytest.approx(80 * 70 / 85), "for_s": 0, "enabled": True}
    assert head["thresholds"]["temperature_c"] == rule
    assert head["thresholds"]["power_w"]["above"] == 50
    assert head["thresholds"]["engine_lost"] == {"quiet_s": 60, "enabled": True}
    assert all("monitor" not in line for line in watched.lines[1:])


def on(machine: boards.Machine) -> tuple[str, str]:
    return "--root", str(machine.root)


def test_each_line_has_the_machine_s_values(tmp_path: Path, machine: boards.Machine) -> None:
    with monitor(tmp_path / "run", *QUICK, *on(machine), path=machine.path) as watched:
        sample = watched.until(lambda line: line["power_w"] is not None)
        assert sample["gpu_percent"] == 92 and sample["temperature_c"] == 56
        assert sample["power_w"] == pytest.approx(boards.AGX_WATTS)
        assert sample["bandwidth_gb_s"] == pytest.approx(0.84 * 204.8)
        assert sample["rails_w"]["VDD_GPU_SOC"] == 18 and sample["throttled"] == []
        assert sample["engines"] == [] and sample["alerts"] == [] and sample["problems"] == {}
        times = [line["at_ms"] for line in watched.samples]
        assert times == sorted(times)
        assert watched.end() == 0 and watched.said == ""


def test_an_alert_runs_the_command_once_when_it_begins_and_once_when_it_ends(
    tmp_path: Path, machine: boards.Machine
) -> None:
    log = tmp_path / "alerts"
    command = f'echo "$ORIN_LLM_ALERT_EVENT $ORIN_LLM_ALERT_RULE" >>{log}'
    arguments = (*QUICK, *on(machine), "--alert-cmd", command)
    with monitor(tmp_path / "run", *arguments, path=machine.path) as watched:
        for degrees, alerts in ((56, 0), (91, 1), (83, 1), (95, 1), (79, 0), (82, 0)):
            print_temperature(machine, degrees)
            sample = watched.until(lambda line: line["temperature_c"] == degrees)  # noqa: B023
            assert [alert["rule"] for alert in sample["alerts"]] == ["temperature_c"] * alerts
        assert watched.end() == 0
        assert watched.events == ["raised temperature_c", "cleared temperature_c"]
    assert log.read_text().splitlines() == ["raised temperature_c", "cleared temperature_c"]


def test_an_event_s_line_comes_before_that_of_its_snapshot(
    tmp_path: Path, machine: boards.Machine
) -> None:
    print_temperature(machine, 90)
    with monitor(tmp_path / "run", *QUICK, *on(machine), path=machine.path) as watched:
        watched.until(lambda line: bool(line["alerts"]))
        event = next(line for line in watched.lines if "event" in line)
        sample = watched.lines[watched.lines.index(event) + 1]
        assert event["at_ms"] == sample["at_ms"]
        assert {**sample["alerts"][0], "event": "raised", "at_ms": event["at_ms"]} == event
        assert event["text"] == "temperature 90.0 °C (tj), above 85 °C"


def test_a_command_that_hangs_does_not_hold_up_the_log_nor_the_end(
    tmp_path: Path, machine: boards.Machine
) -> None:
    print_temperature(machine, 90)
    pid = tmp_path / "pid"
    command = f"echo $$ >{pid}; exec sleep 1000"
    arguments = (*QUICK, *on(machine), "--alert-cmd", command)
    with monitor(tmp_path / "run", *arguments, path=machine.path) as watched:
        until(lambda: pid.exists() and pid.read_text().endswith("\n"), "the command")
        watched.until(lambda line: True)
        assert watched.end() == 0
        assert "temperature_c raised was killed, for the monitor ends" in watched.said
    assert not Path(f"/proc/{int(pid.read_text())}").exists()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 0)]
)
def test_a_signal_ends_it_and_the_tools_it_runs(
    tmp_path: Path, machine: boards.Machine, number: int, code: int
) -> None:
    with monitor(tmp_path / "run", *QUICK, *on(machine), path=machine.path) as watched:
        watched.until(lambda line: line["sources"][0] == "tegrastats")
        tools = children(watched.process.pid)
        assert tools
        assert watched.end(number) == code and watched.said == ""
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in tools), "the tools' end")


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def test_a_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    with monitor(tmp_path / "run", *QUICK, "--source", "procfs") as watched:
        watched.end(signal.SIGHUP)
    usual = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; children inherit it
    try:
        with monitor(tmp_path / "again", *QUICK, "--source", "procfs") as watched:
            watched.process.send_signal(signal.SIGHUP)
            for _ in range(3):
                watched.until(lambda line: True)
            assert watched.end() == 0
    finally:
        signal.signal(signal.SIGHUP, usual)


def test_when_nobody_reads_the_log_it_ends_and_kills_its_tools(
    tmp_path: Path, machine: boards.Machine
) -> None:
    process = subprocess.Popen(
        [*CLI, "monitor", *QUICK, *on(machine)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(PATH=machine.path, XDG_RUNTIME_DIR=str(tmp_path)),
    )
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline().startswith(b"{")
    tools = children(process.pid)
    process.stdout.close()
    assert process.wait(60) == 1 and process.stderr.read() == b""
    process.stderr.close()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in tools), "the tools' end")


def test_a_reader_that_is_stuck_does_not_keep_it_from_ending_nor_from_alerts(
    tmp_path: Path, machine: boards.Machine
) -> None:
    print_temperature(machine, 56)
    alerts = tmp_path / "alerts"
    process = subprocess.Popen(
        [
            *CLI,
            "monitor",
            *QUICK,
            *on(machine),
            "--alert-cmd",
            f"echo $ORIN_LLM_ALERT_EVENT >>{alerts}",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=environment(PATH=machine.path, XDG_RUNTIME_DIR=str(tmp_path)),
    )
    assert process.stdout is not None
    os.read(process.stdout.fileno(), 1)
    fill(process)
    print_temperature(machine, 90)
    until(lambda: alerts.exists() and alerts.read_text() == "raised\n", "the alert")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    process.stdout.close()


def fill(process: subprocess.Popen[bytes]) -> None:
    """Wait until the pipe takes no more. It has one page, which is full with whatever is in it."""
    assert process.stdout is not None
    number = process.stdout.fileno()
    fcntl.fcntl(number, fcntl.F_SETPIPE_SZ, 4096)

    def waiting() -> int:
        return int(struct.unpack("i", fcntl.ioctl(number, termios.FIONREAD, b"\0" * 4))[0])

    until(lambda: waiting() > 0, "a line that nobody reads")


def test_when_tegrastats_is_killed_or_prints_garbage_it_goes_on_and_recovers(
    tmp_path: Path, machine: boards.Machine
) -> None:
    with monitor(tmp_path / "run", *QUICK, *on(machine), path=machine.path) as watched:
        watched.until(lambda line: line["sources"][0] == "tegrastats")
        machine.tegrastats("\udcff\x00 neither this nor that".encode("utf-8", "replace").decode())
        sample = watched.until(lambda line: "tegrastats" in line["problems"])
        assert sample["problems"]["tegrastats"] == "what tegrastats prints is not known here"
        assert sample["temperature_c"] == 56 and sample["sources"][0] == "sysfs"
        for pid in children(watched.process.pid):
            os.kill(pid, signal.SIGKILL)
        print_temperature(machine, 60)
        sample = watched.until(lambda line: line["temperature_c"] == 60)
        assert sample["sources"][0] == "tegrastats" and sample["problems"] == {}
        assert watched.end() == 0


def test_sensors_that_vanish_are_null_and_come_back(
    tmp_path: Path, machine: boards.Machine
) -> None:
    arguments = (*QUICK, *on(machine), "--source", "sysfs")
    with monitor(tmp_path / "run", *arguments, path=machine.path) as watched:
        watched.until(lambda line: line["temperature_c"] == 56)
        thermal = machine.root / "sys/class/thermal"
        thermal.rename(machine.root / "gone")
        sample = watched.until(lambda line: line["temperature_c"] is None)
        assert sample["temperatures_c"] == {} and sample["power_w"] is not None
        (machine.root / "gone").rename(thermal)
        watched.until(lambda line: line["temperature_c"] == 56)
        assert watched.end() == 0


def test_an_engine_is_logged_while_it_runs_and_its_alerts_end_with_it(
    tmp_path: Path, tiny_model: Path
) -> None:
    config = tmp_path / "monitor.toml"
    config.write_text("[ttft_ms]\nabove = 1e-6\nwindow = 2\n[tpot_ms]\nenabled = false")
    folder = tmp_path / "run"
    folder.mkdir()
    arguments = (*QUICK, "--source", "procfs", "--config", str(config))
    with monitor(folder, *arguments) as watched:
        with engine_process(tiny_model, folder) as process:
            sample = watched.until(lambda line: bool(line["engines"]))
            assert sample["engines"][0]["pid"] == process.pid
            assert sample["engines"][0]["ttft_ms"] is None and sample["alerts"] == []
            for _ in range(2):
                ask(process, 5)
            sample = watched.until(lambda line: bool(line["alerts"]))
            (engine,), (alert,) = sample["engines"], sample["alerts"]
            assert engine["answers"] == 2 and engine["ttft_ms"] == alert["value"] > 0
            assert (alert["rule"], alert["subject"]) == ("ttft_ms", engine["name"])
            process.kill()
            sample = watched.until(lambda line: not line["engines"])
        assert [alert["rule"] for alert in sample["alerts"]] == ["engine_lost"]
        assert watched.events == ["raised ttft_ms", "cleared ttft_ms", "raised engine_lost"]
        assert watched.end() == 0


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


def test_a_stopped_engine_is_an_alert_until_it_goes_on_and_a_closed_one_is_none(
    tmp_path: Path, tiny_model: Path
) -> None:
    folder = tmp_path / "run"
    with monitor(folder, *QUICK, "--source", "procfs") as watched:
        with engine_process(tiny_model, folder) as process:
            watched.until(lambda line: bool(line["engines"]))
            process.send_signal(signal.SIGSTOP)
            sample = watched.until(lambda line: bool(line["alerts"]))
            assert sample["alerts"][0]["rule"] == "engine_lost" and len(sample["engines"]) == 1
            assert "has said nothing for" in sample["alerts"][0]["text"]
            process.send_signal(signal.SIGCONT)
            watched.until(lambda line: not line["alerts"])
            assert watched.events == ["raised engine_lost", "cleared engine_lost"]
            process.communicate("")
            watched.until(lambda line: not line["engines"])
            sample = watched.until(lambda line: True)
            assert sample["alerts"] == [] and sample["problems"] == {}
        assert watched.end() == 0 and len(watched.events) == 2


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
