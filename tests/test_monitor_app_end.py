"""How the live view of `orin-llm monitor` ends, and what it leaves of its terminal."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from fakes.boards import JETSONS, Machine, jetson
from monitor_terminal import RESTORED, Terminals, ended, hung_up, see
from processes import python


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Terminals]:
    with Terminals(tmp_path) as terminals:
        yield terminals


@pytest.fixture
def board(tmp_path: Path) -> Machine:
    return jetson(tmp_path / "board", JETSONS["64GB-JP6"])


def test_the_terminal_is_as_it_was(start: Terminals, board: Machine) -> None:
    child = start(machine=board)
    before = termios.tcgetattr(child.child_fd)
    see(child, "92 %")
    assert termios.tcgetattr(child.child_fd) != before
    child.send(b"q")
    child.expect_exact(RESTORED)
    child.expect_exact(b"\x1b[?25h")
    assert termios.tcgetattr(child.child_fd) == before
    child.expect(pexpect.EOF)


def test_ctrl_c_ends_it_with_130(start: Terminals, board: Machine) -> None:
    child = start(machine=board)
    see(child, "92 %")
    child.send(b"\x03")
    assert ended(child) == 130


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_signals_end_it_and_the_terminal_is_restored(
    start: Terminals, board: Machine, number: int, code: int
) -> None:
    child = start(machine=board)
    see(child, "92 %")
    child.kill(number)
    assert ended(child) == code


def test_the_shell_can_stop_it_and_bring_it_back(start: Terminals, board: Machine) -> None:
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
def test_a_terminal_that_is_gone_ends_it(start: Terminals, board: Machine, trap: str) -> None:
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


def stuck(start: Terminals, command: list[str] | None = None) -> pexpect.spawn[bytes]:
    """An app that waits for ever, and has nothing to write any more."""
    child = start(command=command or python(STUCK))
    child.expect_exact(b"ready\r\n")
    return child


def test_a_terminal_that_takes_nothing_does_not_keep_it_from_ending(start: Terminals) -> None:
    child = stuck(start)
    child.kill(signal.SIGTERM)
    assert ended(child) == 143


def test_an_app_that_is_stuck_when_its_terminal_goes_is_ended(start: Terminals) -> None:
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


def test_a_signal_is_told_where_the_main_thread_does_not_see_it(start: Terminals) -> None:
    child = stuck(start, python(DEAF))
    child.kill(signal.SIGTERM)
    child.expect_exact(b"ends with 143\r\nhas ended True\r\n", timeout=30)


def test_nothing_is_written_of_a_terminal_that_is_gone(start: Terminals, tmp_path: Path) -> None:
    log = tmp_path / "log"
    arguments = shlex.join(python(STUCK))
    child = stuck(start, ["/bin/sh", "-c", f"exec {arguments} 2>{log}"])
    assert hung_up(child) == 129
    assert log.read_text() == ""
