"""The live view of `orin-llm monitor` on a pseudo-terminal, with fake boards and a real engine."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest
from fakes.boards import JETSONS, Machine, jetson, pc
from live_view import BUSY, ORIN, START_MS
from monitor_support import ask, engine_process
from processes import CLI, environment, python

from orin_llm.device.reading import Reading
from orin_llm.monitor.recording import Recorder
from orin_llm.monitor.snapshot import Snapshot

Start = Callable[..., "pexpect.spawn[bytes]"]
RESTORED = b"\x1b[?1049l"  # leaves the alternate screen
ESCAPES = re.compile(rb"\x1b\[[?<>=]?[0-9;$]*[A-Za-z]")
COLOUR = re.compile(rb"\x1b\[[0-9;]*\b(?:3[0-7]|4[0-7]|9[0-7]|10[0-7]|38|48)[;m]")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the command, and ends what a failing test left running."""
    children: list[pexpect.spawn[bytes]] = []

    def spawn(
        *arguments: str,
        machine: Machine | None = None,
        size: tuple[int, int] = (80, 24),
        command: list[str] | None = None,
        **variables: str,
    ) -> pexpect.spawn[bytes]:
        if machine is not None:
            arguments = (*arguments, "--root", str(machine.root))
            variables = {"PATH": machine.path, **variables}
        child = pexpect.spawn(
            (command or CLI)[0],
            [*(command or CLI)[1:], *([] if command else ["monitor"]), *arguments],
            env=plain_environment(tmp_path, **variables),
            dimensions=(size[1], size[0]),
            timeout=120,
        )
        children.append(child)
        return child

    yield spawn
    for child in children:
        child.close(force=True)


def plain_environment(folder: Path, **variables: str) -> dict[str, str]:
    """Of a user with a UTF-8 locale, and neither configuration nor engines of the real one."""
    values = environment(
        TERM="xterm-256color",
        LC_ALL="C.UTF-8",
        XDG_RUNTIME_DIR=str(folder),
        XDG_CONFIG_HOME=str(folder),
        TMPDIR=str(folder),
    )
    unwanted = ("NO_COLOR", "COLORTERM", "LANG", "LC_CTYPE")
    return {name: value for name, value in values.items() if name not in unwanted} | variables


def see(child: pexpect.spawn[bytes], *facts: str) -> bytes:
    """Read until all of them were written, in whatever order; what was read."""
    seen = b""
    deadline = time.monotonic() + 120
    while any(fact.encode() not in ESCAPES.sub(b"", seen) for fact in facts):
        assert time.monotonic() < deadline, (facts, seen[-4000:])
        try:
            seen += child.read_nonblocking(65536, timeout=1)
        except pexpect.TIMEOUT:
            continue
        except pexpect.EOF:
            raise AssertionError(f"ended without {facts}: {seen!r}") from None
    return seen


def ended(child: pexpect.spawn[bytes]) -> int:
    """The exit code, once the terminal has been given back as it was."""
    child.expect(pexpect.EOF)
    assert RESTORED in child.before
    assert b"\x1b[?25h" in child.before  # the cursor is seen again
    child.close()
    assert child.exitstatus is not None
    return child.exitstatus


def hung_up(child: pexpect.spawn[bytes]) -> int:
    """The exit code, once the terminal is gone."""
    child.ptyproc.fileobj.close()
    deadline = time.monotonic() + 120
    while (found := os.waitpid(child.pid, os.WNOHANG)) == (0, 0):
        assert time.monotonic() < deadline, "it does not end"
        time.sleep(0.02)
    child.ptyproc.terminated = True
    child.closed = child.ptyproc.closed = True
    return os.waitstatus_to_exitcode(found[1])


def quit_by_key(child: pexpect.spawn[bytes]) -> None:
    child.send(b"q")
    assert ended(child) == 0


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
    start: Start, tmp_path: Path, name: str, facts: list[str]
) -> None:
    folder = tmp_path / "board"
    machine = pc(folder) if name == "pc" else jetson(folder, JETSONS[name])
    child = start(machine=machine)
    see(child, *facts, "No engine runs")
    quit_by_key(child)


def test_the_terminal_is_as_it_was(start: Start, board: Machine) -> None:
    child = start(machine=board)
    before = termios.tcgetattr(child.child_fd)
    see(child, "92 %")
    assert termios.tcgetattr(child.child_fd) != before
    child.send(b"q")
    child.expect_exact(RESTORED)
    child.expect_exact(b"\x1b[?25h")
    assert termios.tcgetattr(child.child_fd) == before
    child.expect(pexpect.EOF)


def test_ctrl_c_ends_it_with_130(start: Start, board: Machine) -> None:
    child = start(machine=board)
    see(child, "92 %")
    child.send(b"\x03")
    assert ended(child) == 130


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_signals_end_it_and_the_terminal_is_restored(
    start: Start, board: Machine, number: int, code: int
) -> None:
    child = start(machine=board)
    see(child, "92 %")
    child.kill(number)
    assert ended(child) == code


def test_the_shell_can_stop_it_and_bring_it_back(start: Start, board: Machine) -> None:
    child = start(command=["/bin/bash", "--norc", "-i"], PATH=board.path, PS1="$ ")
    child.send(f"{sys.executable} -m orin_llm.cli monitor --root {board.root}\r".encode())
    see(child, "92 %", "q quit")
    child.send(b"\x1a")
    child.expect_exact(RESTORED)
    child.expect_exact(b"Stopped")
    child.send(b"fg\r")
    see(child, "92 %", "q quit")
    child.send(b"q")
    child.expect_exact(RESTORED)
    child.send(b"echo code=$?\r")
    child.expect_exact(b"code=0")
    child.send(b"exit\r")
    child.expect(pexpect.EOF)


@pytest.mark.parametrize("trap", ["", "trap '' HUP; "], ids=["", "ignored-hang-up"])
def test_a_terminal_that_is_gone_ends_it(start: Start, board: Machine, trap: str) -> None:
    line = f"{trap}exec {sys.executable} -m orin_llm.cli monitor --root {board.root}"
    child = start(command=["/bin/sh", "-c", line], PATH=board.path)
    see(child, "92 %")
    assert hung_up(child) == 129


def test_writing_to_a_terminal_that_is_gone_is_a_hang_up() -> None:
    program = """
        import os, pty, signal
        from orin_llm.cli.live.driver import _Terminal

        ours, theirs = pty.openpty()
        os.close(ours)
        hang_ups = []
        signal.signal(signal.SIGHUP, lambda number, frame: hang_ups.append(number))
        terminal = _Terminal(theirs, "wb")
        print([terminal.write(b"text") for _ in range(3)], len(hang_ups))
    """
    done = subprocess.run(python(program), capture_output=True, text=True)
    assert done.stdout == "[4, 4, 4] 1\n", done.stderr


STUCK = """
    import threading
    from orin_llm.cli.live import signals

    signals.GRACE_S = 0.1
    with signals.ended_by_signals(lambda code: None):
        print("ready", flush=True)
        threading.Event().wait()
"""


def stuck(start: Start, command: list[str] | None = None) -> pexpect.spawn[bytes]:
    """An app that waits for ever, and has nothing to write any more."""
    child = start(command=command or python(STUCK))
    child.expect_exact(b"ready\r\n")
    return child


def test_a_terminal_that_takes_nothing_does_not_keep_it_from_ending(start: Start) -> None:
    child = stuck(start)
    child.kill(signal.SIGTERM)
    assert ended(child) == 143


def test_an_app_that_is_stuck_when_its_terminal_goes_is_ended(start: Start) -> None:
    child = stuck(start)
    assert hung_up(child) == 129


# A signal that comes just before the main thread waits does not wake it. Nor do those that come in
# another thread.
DEAF = """
    import signal, threading
    from orin_llm.cli.live.signals import ended_by_signals

    is_told = threading.Event()
    with ended_by_signals(lambda code: (print("ends with", code, flush=True), is_told.set())):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        print("ready", flush=True)
        is_told.wait()
    print("has ended", signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
"""


def test_a_signal_is_told_where_the_main_thread_does_not_see_it(start: Start) -> None:
    child = stuck(start, python(DEAF))
    child.kill(signal.SIGTERM)
    child.expect_exact(b"ends with 143\r\nhas ended True\r\n", timeout=30)


def test_nothing_is_written_of_a_terminal_that_is_gone(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    arguments = shlex.join(python(STUCK))
    child = stuck(start, ["/bin/sh", "-c", f"exec {arguments} 2>{log}"])
    assert hung_up(child) == 129
    assert log.read_text() == ""


def test_standard_error_may_be_a_file(start: Start, board: Machine, tmp_path: Path) -> None:
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
    start: Start, board: Machine, variables: dict[str, str]
) -> None:
    child = start(machine=board, **variables)
    seen = see(child, "56.0  C", "q quit")
    child.send(b"q")
    child.expect(pexpect.EOF)
    assert (seen + child.before).isascii()


@pytest.mark.parametrize("terminal", ["xterm", "xterm-256color", "screen", "vt100"])
def test_kinds_of_terminals_show_blocks_and_colours(
    start: Start, board: Machine, terminal: str
) -> None:
    child = start(machine=board, TERM=terminal)
    assert COLOUR.search(see(child, "───", "56.0 °C"))
    quit_by_key(child)


def test_an_encoding_of_python_that_lacks_blocks_does_not_stop_it(
    start: Start, board: Machine
) -> None:
    child = start(machine=board, PYTHONIOENCODING="latin-1")
    see(child, "───")
    quit_by_key(child)


def test_no_color_writes_no_colour(start: Start, board: Machine) -> None:
    child = start(machine=board, NO_COLOR="1")
    seen = see(child, "56.0 °C", "q quit")
    child.send(b"q")
    child.expect(pexpect.EOF)
    assert not COLOUR.search(seen + child.before)


def test_a_terminal_that_cannot_move_its_cursor_is_refused(start: Start) -> None:
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


def test_a_recording_is_replayed_to_its_end_and_stays(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    recording(path, 40)
    child = start("--replay", str(path), "--speed", "1000")
    see(child, "ended", "39 %")
    quit_by_key(child)


def test_a_damaged_recording_ends_with_its_error_after_the_terminal_is_restored(
    start: Start, tmp_path: Path
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


def test_what_is_shown_live_can_be_recorded(start: Start, board: Machine, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    child = start("--record", str(path), "--interval", "0.1", machine=board)
    see(child, "92 %")
    quit_by_key(child)
    again = start("--replay", str(path), "--speed", "1000")
    see(again, "92 %", "ended")
    quit_by_key(again)


def test_a_real_engine_is_found_and_its_figures_are_shown(
    start: Start, tiny_model: Path, tmp_path: Path
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
