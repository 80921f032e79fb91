"""`orin-llm monitor --headless` as a process: its log, its alerts, its end."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import subprocess
import termios
from pathlib import Path

import pytest
from fakes import boards
from headless_monitor import (
    QUICK,
    board_at_50_w,
    children,
    monitor,
    on,
    print_temperature,
)
from processes import CLI, environment, python, start
from stats_support import until

from orin_llm import __version__


@pytest.fixture
def machine(tmp_path: Path) -> boards.Machine:
    return board_at_50_w(tmp_path / "board")


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


# A signal that comes just before `select` waits does not end that by itself. Nor do those that come
# in another thread.
WAITS = """
    import select, signal, threading
    from orin_llm.monitor.stop_signals import stop_signals

    with stop_signals() as stop:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        print("waits", flush=True)
        select.select([stop], [], [])
        print(stop.number)
"""


def test_a_signal_is_seen_by_what_waits_though_no_system_call_is_interrupted() -> None:
    process = start(python(WAITS))
    assert process.stdout is not None and process.stdout.readline() == "waits\n"
    process.send_signal(signal.SIGTERM)
    try:
        assert process.communicate(timeout=60)[0] == "15\n"
    finally:
        process.kill()


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
