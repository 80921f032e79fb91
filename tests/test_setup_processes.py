"""`orin-llm setup` as a process that is stopped, killed, or not alone, while a program holds it up.

Programs wait until they are told to go on: nothing here depends on time.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from processes import CLI, environment, run, start
from setup_support import SetupBoard, make_board

SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
# A program of each change that runs any.
CALLS = [
    "nvpmodel -m 0",
    "systemctl enable orin-llm-emc.service",
    "systemctl start orin-llm-clocks.service",
    "systemctl stop nvfancontrol",
    "systemctl set-default multi-user.target",
    "mkswap",
    "systemctl disable nvzramconfig.service",
    "udevadm trigger",
    "gpasswd --add ada video",
]
SNAPSHOT = "var/lib/orin-llm/setup.json"
TIMEOUT_S = 120


class Hold:
    """Stops the first program that is called like this before it does anything."""

    def __init__(self, board: SetupBoard, call: str) -> None:
        folder = board.root.parent / f"hold {call}".replace("/", "_")
        folder.mkdir()
        ends = []
        for name in ("reached", "go"):
            os.mkfifo(folder / name)
            ends.append(os.open(folder / name, os.O_RDWR))
        self._reached, self._go = ends
        script = f'echo >"{folder}/reached"; read -r _ <"{folder}/go"'
        self.variables = board.once(call, script)

    def wait(self) -> None:
        """Until the program is called."""
        ready, _, _ = select.select([self._reached], [], [], TIMEOUT_S)
        assert ready, "the program was never called"

    def let_go(self) -> None:
        os.write(self._go, b"\n")


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetupBoard:
    return make_board(tmp_path, monkeypatch)


def arguments(board: SetupBoard, command: str) -> list[str]:
    small = [] if command == "revert" else ["--swap-gb", "1"]
    return [*CLI, "setup", command, "--root", str(board.root), *small]


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are killed when the test ends, if they live then."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def held(
    board: SetupBoard, started: list[subprocess.Popen[str]], command: str, call: str
) -> tuple[subprocess.Popen[str], Hold]:
    """A process of `setup` that waits for a program, which waits for us."""
    hold = Hold(board, call)
    process = start(arguments(board, command), env=environment(**hold.variables))
    started.append(process)
    hold.wait()
    return process, hold


def plainly(board: SetupBoard, command: str) -> subprocess.CompletedProcess[str]:
    return run(arguments(board, command))


@pytest.mark.parametrize(
    ("call", "number"),
    [*((call, signal.SIGTERM) for call in CALLS), *(("mkswap", number) for number in SIGNALS)],
)
def test_a_signal_half_way_takes_back_what_was_done_when_the_program_has_ended(
    board: SetupBoard, started: list[subprocess.Popen[str]], call: str, number: signal.Signals
) -> None:
    before = board.configuration()
    process, hold = held(board, started, "apply", call)
    process.send_signal(number)
    hold.let_go()
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 128 + number and out == ""
    assert f"{SIGNALS[number]}: stops when the program that is running has ended\n" in err
    assert f"error: stopped by {SIGNALS[number]}. All is as it was: power-mode" in err
    assert any(line.startswith(call) for line in board.log)  # it was not cut off
    assert board.configuration() == before and not (board.root / SNAPSHOT).exists()


def test_a_signal_while_the_last_program_runs_takes_all_back(
    board: SetupBoard, started: list[subprocess.Popen[str]]
) -> None:
    before = board.configuration()
    hold = Hold(board, "systemctl daemon-reload")
    process = start(
        [*arguments(board, "apply"), "--only", "service"], env=environment(**hold.variables)
    )
    started.append(process)
    hold.wait()
    process.terminate()
    hold.let_go()
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 143 and "service taken back" in err
    assert board.configuration() == before


def test_ctrl_c_at_a_terminal_does_not_reach_the_program_that_is_running(
    board: SetupBoard,
) -> None:
    before = board.configuration()
    hold = Hold(board, "mkswap")
    command, *rest = arguments(board, "apply")
    child = pexpect.spawn(command, rest, env=environment(**hold.variables), encoding="utf-8")
    try:
        hold.wait()
        child.sendintr()
        child.expect("Ctrl-C: stops when", timeout=TIMEOUT_S)
        hold.let_go()
        child.expect("swapfile: taken back", timeout=TIMEOUT_S)
        child.expect("error: stopped by Ctrl-C. All is as it was", timeout=TIMEOUT_S)
        child.expect(pexpect.EOF, timeout=TIMEOUT_S)
    finally:
        child.close(force=True)
    assert child.exitstatus == 130
    assert any(line.startswith("mkswap") for line in board.log)
    assert board.configuration() == before


def test_a_terminal_that_is_closed_stops_nothing_of_the_taking_back(board: SetupBoard) -> None:
    before = board.configuration()
    hold = Hold(board, "mkswap")
    command, *rest = arguments(board, "apply")
    child = pexpect.spawn(command, rest, env=environment(**hold.variables), encoding="utf-8")
    hold.wait()
    os.close(child.child_fd)  # SIGHUP, and nobody reads what is written any more
    hold.let_go()
    _, status = os.waitpid(child.pid, 0)
    child.ptyproc.closed = child.closed = True
    child.ptyproc.terminated = child.terminated = True
    assert os.waitstatus_to_exitcode(status) != 0
    assert board.configuration() == before and not (board.root / SNAPSHOT).exists()


def test_signals_while_it_takes_back_change_nothing(
    board: SetupBoard, started: list[subprocess.Popen[str]]
) -> None:
    before = board.configuration()
    again = Hold(board, "systemctl set-default graphical.target")  # which is its taking back
    hold = Hold(board, "mkswap")
    path = f"{hold.variables['PATH'].split(':')[0]}:{again.variables['PATH']}"
    process = start(arguments(board, "apply"), env=environment(PATH=path))
    started.append(process)
    hold.wait()
    process.send_signal(signal.SIGINT)
    hold.let_go()
    again.wait()
    for number in SIGNALS:
        process.send_signal(number)
    again.let_go()
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130 and "All is as it was" in err
    assert board.configuration() == before


def test_a_failure_is_taken_back_whatever_signals_come_meanwhile(
    board: SetupBoard, started: list[subprocess.Popen[str]]
) -> None:
    before = board.configuration()
    fails = board.once("mkswap", "exit 1")["PATH"].split(":")[0]
    hold = Hold(board, "systemctl set-default graphical.target")
    path = f"{fails}:{hold.variables['PATH']}"
    process = start(arguments(board, "apply"), env=environment(PATH=path))
    started.append(process)
    hold.wait()
    process.terminate()
    hold.let_go()
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1 and "`mkswap" in err and "All is as it was" in err
    assert board.configuration() == before


def test_what_ignores_hang_ups_goes_on_when_the_terminal_is_closed(
    board: SetupBoard, started: list[subprocess.Popen[str]]
) -> None:
    hold = Hold(board, "mkswap")
    script = f'trap "" HUP; exec {" ".join(arguments(board, "apply"))}'
    process = start(["/bin/sh", "-c", script], env=environment(**hold.variables))
    started.append(process)
    hold.wait()
    process.send_signal(signal.SIGHUP)
    hold.let_go()
    out, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0 and out.startswith("changed: power-mode")


@pytest.mark.parametrize("call", CALLS)
def test_after_a_kill_in_the_middle_revert_restores_all(
    board: SetupBoard, started: list[subprocess.Popen[str]], call: str
) -> None:
    before = board.configuration()
    process, hold = held(board, started, "apply", call)
    process.kill()
    process.wait()
    refused = plainly(board, "revert")
    assert refused.returncode == 1
    assert f"`orin-llm setup apply` (process {process.pid}) was killed, and a program" in (
        refused.stderr
    )
    hold.let_go()
    until_unlocked(board)
    done = plainly(board, "revert")
    assert done.returncode == 0, done.stderr
    assert board.configuration() == before and not (board.root / SNAPSHOT).exists()


def until_unlocked(board: SetupBoard) -> None:
    """The program that was left over has ended when nobody holds the lock."""
    subprocess.run(
        ["/usr/bin/flock", str(board.root / "run/orin-llm-setup.lock"), "/bin/true"],
        check=True,
        timeout=TIMEOUT_S,
    )


@pytest.mark.parametrize("first", ["apply", "revert"])
@pytest.mark.parametrize("second", ["apply", "revert"])
def test_the_second_of_two_says_what_to_wait_for_and_changes_nothing(
    board: SetupBoard, started: list[subprocess.Popen[str]], first: str, second: str
) -> None:
    before = board.configuration()
    if first == "revert":
        assert plainly(board, "apply").returncode == 0
    target = "multi-user.target" if first == "apply" else "graphical.target"
    process, hold = held(board, started, first, f"systemctl set-default {target}")
    meanwhile = board.files()
    refused = plainly(board, second)
    assert refused.returncode == 1 and refused.stdout == ""
    assert refused.stderr == (
        f"error: `orin-llm setup {first}` is at work (process {process.pid}). Nothing was changed. "
        "Wait until it has ended\n"
    )
    assert board.files() == meanwhile
    assert plainly(board, "plan").returncode == 0  # which only looks
    hold.let_go()
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert plainly(board, "revert").returncode == 0
    assert board.configuration() == before


@pytest.mark.parametrize("number", SIGNALS)
def test_a_revert_that_is_stopped_keeps_the_rest_for_the_next(
    board: SetupBoard, started: list[subprocess.Popen[str]], number: signal.Signals
) -> None:
    before = board.configuration()
    assert plainly(board, "apply").returncode == 0
    process, hold = held(board, started, "revert", "systemctl set-default graphical.target")
    process.send_signal(number)
    hold.let_go()
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 128 + number
    assert (
        f"stopped by {SIGNALS[number]}. Not restored yet, run `orin-llm setup revert` again: "
        "headless, fan, clocks, emc-cap, power-mode\n"
    ) in err
    assert plainly(board, "revert").stdout.startswith(
        "restored: headless, fan, clocks, emc-cap, power-mode\n"
    )
    assert board.configuration() == before
