"""The live view of `orin-llm monitor` on a pseudo-terminal, with fake boards and a real engine."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from fakes.boards import JETSONS, Machine, jetson, pc
from live_view import BUSY, ORIN, START_MS
from monitor_support import ask, engine_process
from monitor_terminal import RESTORED, Terminals, plain_environment, quit_by_key, see
from processes import python

from orin_llm.device.reading import Reading
from orin_llm.monitor.recording import Recorder
from orin_llm.monitor.snapshot import Snapshot

COLOUR = re.compile(rb"\x1b\[[0-9;]*\b(?:3[0-7]|4[0-7]|9[0-7]|10[0-7]|38|48)[;m]")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Terminals]:
    with Terminals(tmp_path) as terminals:
        yield terminals


@pytest.fixture
def board(tmp_path: Path) -> Machine:
    return jetson(tmp_path / "board", JETSONS["64GB-JP6"])


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("64GB-JP6", ["JetPack 6.2", "92 %", "172 of 205 GB/s", "31.0 W", "56.0 °C"]),
        ("32GB-JP5", ["JetPack 5.1", "92 %", "172 of 205 GB/s", "31.0 W", "56.0 °C"]),
        ("32GB-JP6-user", ["JetPack 6.2", "92 %", "needs root or jtop", "31.0 W", "56.0 °C"]),
        ("pc", ["Workstation 4", "50 %", "8.4 of 16.8 GB", "4 cores"]),
    ],
)
def test_each_machine_shows_its_values(
    start: Terminals, tmp_path: Path, name: str, facts: list[str]
) -> None:
    folder = tmp_path / "board"
    machine = pc(folder) if name == "pc" else jetson(folder, JETSONS[name])
    child = start(machine=machine)
    see(child, *facts, "No engine runs")
    quit_by_key(child)


def test_standard_error_may_be_a_file(start: Terminals, board: Machine, tmp_path: Path) -> None:
    log = tmp_path / "log"
    line = f"exec {sys.executable} -m orin_llm.cli monitor --root {board.root} 2>{log}"
    child = start(command=["/bin/sh", "-c", line], PATH=board.path)
    see(child, "92 %")
    quit_by_key(child)
    assert log.read_text() == ""


@pytest.mark.parametrize(
    "variables",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "", "LANG": "C"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"TERM": "linux"},
    ],
    ids=["LC_ALL", "LANG", "no-utf8-mode", "console"],
)
def test_a_terminal_without_blocks_gets_ascii(
    start: Terminals, board: Machine, variables: dict[str, str]
) -> None:
    child = start(machine=board, **variables)
    seen = see(child, "56.0  C", "q quit")
    child.send(b"q")
    child.expect(pexpect.EOF)
    assert (seen + child.before).isascii()


@pytest.mark.parametrize("terminal", ["xterm", "xterm-256color", "screen", "vt100"])
def test_kinds_of_terminals_show_blocks_and_colours(
    start: Terminals, board: Machine, terminal: str
) -> None:
    child = start(machine=board, TERM=terminal)
    assert COLOUR.search(see(child, "───", "56.0 °C"))
    quit_by_key(child)


def test_an_encoding_of_python_that_lacks_blocks_does_not_stop_it(
    start: Terminals, board: Machine
) -> None:
    child = start(machine=board, PYTHONIOENCODING="latin-1")
    see(child, "───")
    quit_by_key(child)


def test_no_color_writes_no_colour(start: Terminals, board: Machine) -> None:
    child = start(machine=board, NO_COLOR="1")
    seen = see(child, "56.0 °C", "q quit")
    child.send(b"q")
    child.expect(pexpect.EOF)
    assert not COLOUR.search(seen + child.before)


def test_a_terminal_that_cannot_move_its_cursor_is_refused(start: Terminals) -> None:
    child = start(TERM="dumb")
    child.expect_exact(b"TERM is dumb")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 2


def recording(path: Path, count: int) -> None:
    recorder = Recorder(path, ORIN, 1.0)
    for n in range(count):
        reading = Reading(n * 1e3, **BUSY | {"gpu_percent": float(n)})
        recorder.add(Snapshot(START_MS + n * 1e3, reading))
    recorder.close()


def test_a_recording_is_replayed_to_its_end_and_stays(start: Terminals, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    recording(path, 40)
    child = start("--replay", str(path), "--speed", "1000")
    see(child, "ended", "39 %")
    quit_by_key(child)


def test_a_damaged_recording_ends_with_its_error_after_the_terminal_is_restored(
    start: Terminals, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    recording(path, 1)
    with path.open("a") as file:
        file.write("nonsense\n")
    child = start("--replay", str(path))
    child.expect_exact(RESTORED)
    child.expect_exact(f"error: {path}, line 3, is no snapshot".encode())
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 1


def test_what_is_shown_live_can_be_recorded(
    start: Terminals, board: Machine, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    child = start("--record", str(path), "--interval", "0.1", machine=board)
    see(child, "92 %")
    quit_by_key(child)
    again = start("--replay", str(path), "--speed", "1000")
    see(again, "92 %", "ended")
    quit_by_key(again)


def test_a_real_engine_is_found_and_its_figures_are_shown(
    start: Terminals, tiny_model: Path, tmp_path: Path
) -> None:
    with engine_process(tiny_model, tmp_path) as process:
        child = start("--interval", "0.1", size=(100, 30))
        see(child, "tiny.gguf", "0 answers")
        ask(process, 8)
        see(child, "1 answer ", "last ")
        quit_by_key(child)


def test_only_the_live_view_loads_textual(tmp_path: Path) -> None:
    program = """
        import sys
        from orin_llm.cli.main import main

        sys.argv = ["orin-llm", "monitor", "--once", "--interval", "0.1"]
        try:
            main()
        finally:
            print("textual" in sys.modules)
    """
    done = subprocess.run(
        python(program), capture_output=True, text=True, env=plain_environment(tmp_path)
    )
    assert done.stdout.endswith("False\n"), done.stderr
