"""`orin-llm monitor --once`, and what flags cannot be: on boards and PCs made of files."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from pathlib import Path
from typing import Any

import pexpect
import pytest
from click.testing import Result
from fakes import boards
from monitor_support import answer, ask, engine, engine_process, line, snapshot
from processes import CLI, environment
from typer.testing import CliRunner

from orin_llm.cli.main import app
from orin_llm.monitor.recording import Recorder
from orin_llm.monitor.snapshot import Subject

BOARD_PARTS = ("machine", "CPU", "GPU", "memory", "power", "temperature", "throttled", "read from")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No engine and no thresholds of the user's; a terminal of 80 columns."""
    for name in ("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")


def monitor(*arguments: str, on: boards.Machine | None = None) -> Result:
    place = () if on is None else ("--root", str(on.root))
    before = os.environ["PATH"]
    os.environ["PATH"] = on.path if on else before
    try:
        return CliRunner().invoke(app, ["monitor", *arguments, *place])
    finally:
        os.environ["PATH"] = before


def once(*arguments: str, on: boards.Machine | None = None) -> str:
    done = monitor("--once", "--interval", "0.2", *arguments, on=on)
    assert done.exit_code == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def once_json(*arguments: str, on: boards.Machine | None = None) -> Any:
    return json.loads(once("--json", *arguments, on=on))


@pytest.mark.parametrize("name", boards.JETSONS)
def test_each_board_s_values_are_printed(tmp_path: Path, name: str) -> None:
    board = boards.JETSONS[name]
    text = once(on=boards.jetson(tmp_path / "board", board))
    assert f" | {socket.gethostname()}" in text.splitlines()[0]
    assert f"JetPack {board.jetpack}" in text and "L4T" in text and "MODE_30W" in text
    assert [label for label in BOARD_PARTS if f"\n{label:<13}" not in "\n" + text] == []
    assert f"50 % | 8 of {board.cores} cores on | up to 1728 MHz" in text
    assert "GPU          92 % | 612 MHz\n" in text
    assert "31.0 W of 30 W | VDD_GPU_SOC 18.0 W" in text
    assert "tj 56.0 °C | cpu 55.5 °C | gpu 53.2 °C\n" in text
    assert ("84 % | 3199 MHz | 172.0 GB/s of 204.8 GB/s\n" in text) == board.root
    assert "no engine of this user runs\n" in text
    assert "ALERT        power 31.0 W, above 30 W\n" in text


def test_json_has_everything_there_is(tmp_path: Path) -> None:
    found = once_json(on=boards.jetson(tmp_path / "board", boards.AGX_64_JP6))
    members = {"machine", "at_ms", "temperature_c", "reading", "engines", "alerts", "problems"}
    assert set(found) == members and found["temperature_c"] == 56
    assert found["machine"] == {
        "name": "NVIDIA Jetson AGX Orin Developer Kit",
        "is_jetson": True,
        "l4t": "36.4.3",
        "jetpack": "6.2",
        "mode": "MODE_30W",
        "budget_w": 30,
        "peak_bandwidth_gb_s": pytest.approx(204.7, abs=0.2),
        "host": socket.gethostname(),
    }
    assert found["reading"]["gpu_percent"] == 92 and len(found["reading"]["cores"]) == 12
    assert [alert["rule"] for alert in found["alerts"]] == ["power_w"]


def test_a_pc_shows_what_it_has_and_nothing_else(tmp_path: Path) -> None:
    text = once(on=boards.pc(tmp_path / "pc"))
    labels = [row.split("  ")[0] for row in text.splitlines() if row and not row.startswith(" ")]
    assert labels == ["machine", "CPU", "memory", "read from", "no engine of this user runs"]
    assert "Workstation 4" in text and "8.39 GB of 16.78 GB | swap 2.10 GB of 4.19 GB" in text


def test_this_machine_has_a_load_and_memory() -> None:
    found = once_json()
    assert 0 <= found["reading"]["cpu_percent"] <= 100
    assert 0 < found["reading"]["ram_used_bytes"] < found["reading"]["ram_total_bytes"]


def test_a_source_alone_is_read(tmp_path: Path) -> None:
    machine = boards.jetson(tmp_path / "board", boards.AGX_64_JP6)
    assert "read from    sysfs\n" in once("--source", "sysfs", on=machine)
    done = monitor("--once", "--source", "nvidia-smi", on=machine)
    assert done.exit_code == 2 and "choose auto, tegrastats" in done.stderr
    done = monitor("--once", "--source", "tegrastats", on=boards.pc(tmp_path / "pc"))
    assert done.exit_code == 4 and "no tegrastats on PATH" in done.stderr


def test_an_engine_s_figures_are_printed(tmp_path: Path, tiny_model: Path) -> None:
    with engine_process(tiny_model, tmp_path) as process:
        for _ in range(10):
            ask(process, 5)
        text = once("--engine", str(process.pid))
        (found,) = once_json()["engines"]
    assert f"engine       tiny.gguf | process {process.pid}\n" in text
    assert "requests     0 of 16 running | 0 waiting | 10 answers\n" in text
    assert "tokens/s     prefill 0.0 | decode 0.0 | step –\n" in text
    tpot = f"{found['tpot_ms']:.1f} ms mean of 10, last {found['last_tpot_ms']:.1f} ms"
    assert f"TPOT         {tpot}\n" in text
    assert "KV cache     0 % | 0 of 256 pages | 0 B of " in text
    assert found["ttft_ms"] > 0 and found["answers"] == 10


def test_before_there_are_enough_answers_there_is_no_mean(tmp_path: Path) -> None:
    def recorded(*answers: dict[str, Any]) -> str:
        file = tmp_path / f"{len(answers)}.jsonl"
        recorder = Recorder(file, Subject("Board", host="robot-7"), 1.0)
        recorder.add(snapshot(1, engine(line(1, answers=answers, kv=(15, 0, 85)))))
        recorder.close()
        return monitor("--once", "--replay", str(file)).stdout

    text = recorded(answer(1, ttft_ms=2126))
    assert "TTFT         – (1 of 10 answers), last 2126 ms\n" in text
    assert "| 1 answer\n" in text and "15 % | 15 of 100 pages" in text and "hit rate 50 %" in text
    text = recorded()
    assert "TTFT         –\n" in text and "TPOT         –\n" in text
    text = recorded(*(answer(n, ttft_ms=2400 + n) for n in range(1, 11)))
    assert "TTFT         2406 ms mean of 10, last 2410 ms\n" in text


def test_an_engine_that_is_not_there_is_an_error() -> None:
    done = monitor("--once", "--engine", "1")
    assert done.exit_code == 1 and "process 1 has no engine" in done.stderr


def test_thresholds_come_from_the_file_that_is_named_or_found(tmp_path: Path) -> None:
    machine = boards.jetson(tmp_path / "board", boards.AGX_64_JP6)
    config = tmp_path / "mine.toml"
    config.write_text("[power_w]\nabove = 31.5")
    assert "ALERT" not in once("--config", str(config), on=machine)
    machine.write("etc/orin-llm/monitor.toml", "[temperature_c]\nabove = 50\n")
    assert "ALERT        temperature 56.0 °C (tj), above 50 °C\n" in once(on=machine)
    (tmp_path / "orin-llm").mkdir(exist_ok=True)
    (tmp_path / "orin-llm/monitor.toml").write_text("[temperature_c]\nabove = hot")
    done = monitor("--once", on=machine)
    assert done.exit_code == 2
    assert (
        f"{tmp_path}/orin-llm/monitor.toml is not TOML" in done.stderr and "line 2" in done.stderr
    )


def record(file: Path, *watts: float) -> None:
    recorder = Recorder(file, Subject("Board", budget_w=30), 1.0)
    for at_s, power_w in enumerate(watts):
        recorder.add(snapshot(at_s, engine(line(at_s, decoded=7 * at_s)), power_w=power_w))
    recorder.close()


def test_a_recording_is_shown_as_it_ended(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    record(file, *[40.0] * 6, 35.0)
    done = monitor("--once", "--json", "--replay", str(file))
    found = json.loads(done.stdout)
    assert found["reading"]["power_w"] == 35 and found["engines"][0]["decode_tokens_per_s"] == 7
    assert [alert["since_ms"] - found["at_ms"] for alert in found["alerts"]] == [-6000]
    file.write_bytes(file.read_bytes()[:-9])
    done = monitor("--once", "--replay", str(file))
    assert "40.0 W of 30 W" in done.stdout
    assert done.stderr == f"note: {file} was cut off in line 8, which is left out\n"


def test_a_recording_says_that_it_is_one(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    recorder = Recorder(file, Subject("Board", host="robot-7"), 1.0)
    recorder.add(snapshot(0))
    recorder.close()
    text = monitor("--once", "--replay", str(file)).stdout
    assert text.startswith("machine      Board | robot-7 | recorded 2027-01-")
    assert "no engine in the recording at its end\n" in text


def test_a_recording_of_nothing_is_said(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    record(file)
    done = monitor("--once", "--replay", str(file))
    assert done.exit_code == 1 and done.stderr == "error: the recording has no snapshot\n"


def test_one_look_can_be_recorded(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    seen = once_json("--record", str(file))
    again = json.loads(monitor("--once", "--json", "--replay", str(file)).stdout)
    assert again == seen


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("", "the live view needs a terminal. Use --once for a table, --once --json"),
        ("--once --headless", "leave out one of them"),
        ("--json", "--json goes with --once"),
        ("--headless --json", "--json goes with --once"),
        ("--once --alert-cmd true", "--alert-cmd goes with --headless"),
        ("--headless --alert-cmd=", "--alert-cmd is empty"),
        ("--once --speed 2", "--speed goes with --replay"),
        ("--once --interval 0.05", "--interval 0.05: expected 0.1 … 3600 seconds"),
        ("--once --interval 3601", "expected 0.1 … 3600 seconds"),
        ("--once --interval abc", "error: --interval abc: expected 0.1 … 3600 seconds"),
        ("--once --interval nan", "expected 0.1 … 3600 seconds"),
        ("--replay FILE --speed 0", "--speed 0: expected a number above 0"),
        ("--replay FILE --speed nan", "--speed nan: expected a number above 0"),
        ("--replay FILE --speed 1e9", "at most 1000"),
        ("--replay FILE --headless --speed 2", "--speed is for the live view"),
        ("--replay FILE --once --record OTHER", "--record is for watching this machine"),
        ("--replay FILE --once --source sysfs", "--source is for watching this machine"),
        ("--replay FILE --once --engine 7", "--engine is for watching this machine"),
        ("--replay FILE --headless --interval 2", "--interval is for watching this machine"),
        ("--replay FILE --headless", "FILE cannot be read: No such file"),
    ],
)
def test_flags_that_make_no_sense_are_refused_and_nothing_is_done(
    tmp_path: Path, flags: str, said: str
) -> None:
    words = flags.split(" ") if flags else []
    done = monitor(*words)
    assert done.exit_code == 2 and said in done.stderr and done.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_in_a_terminal_lines_fit_its_width_and_are_not_coloured(
    tmp_path: Path, columns: int
) -> None:
    machine = boards.jetson(tmp_path / "board", boards.AGX_64_JP6)
    env = environment(PATH=machine.path, XDG_RUNTIME_DIR=str(tmp_path), TERM="xterm-256color")
    env.pop("COLUMNS")
    command = [*CLI, "monitor", "--once", "--interval", "0.1", "--root", str(machine.root)]
    child = pexpect.spawn(command[0], command[1:], env=env, dimensions=(40, columns), timeout=60)
    rows = child.read().decode().replace("\r\n", "\n").splitlines()
    child.close()
    assert child.exitstatus == 0
    assert max(map(len, rows)) < columns and "\x1b" not in "".join(rows)
    assert any("JetPack 6.2" in row for row in rows)


def test_where_the_terminal_lacks_letters_there_is_a_sign_for_them(tmp_path: Path) -> None:
    machine = boards.jetson(tmp_path / "board", boards.AGX_64_JP6)
    env = environment(PATH=machine.path, XDG_RUNTIME_DIR=str(tmp_path), PYTHONIOENCODING="ascii")
    command = [*CLI, "monitor", "--once", "--interval", "0.1", "--root", str(machine.root)]
    child = pexpect.spawn(command[0], command[1:], env=env, timeout=60)
    text = child.read().decode()
    child.close()
    assert child.exitstatus == 0 and "tj 56.0 ?C" in text


def test_control_characters_of_a_recording_do_not_reach_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    recorder = Recorder(file, Subject("\x1b[2JBoard"), 1.0)
    recorder.add(snapshot(0), {"\x1b]0;x\x07": "\x1b[31m"})
    recorder.close()
    text = monitor("--once", "--replay", str(file)).stdout
    assert "^[[2JBoard" in text and "\x1b" not in text and "\x07" not in text


def test_a_time_that_no_clock_has_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    recorder = Recorder(file, Subject("Board"), 1.0)
    recorder.add(snapshot(1e90))
    recorder.close()
    done = monitor("--once", "--replay", str(file))
    assert done.exit_code == 0 and done.stdout.startswith("machine      Board | recorded –\n")
