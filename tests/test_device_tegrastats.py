"""A running tegrastats: read, killed, hung, garbled, gone, and back again."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from fakes import boards

from orin_llm.device.modules import MODULES
from orin_llm.device.reading import Reading
from orin_llm.device.source import SourceUnavailable
from orin_llm.device.tegrastats import Tegrastats

AGX = MODULES["p3701-0005"]
PATIENCE_S = 60


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> boards.Machine:
    made = boards.jetson(tmp_path, boards.AGX_64_JP6)
    monkeypatch.setenv("PATH", made.path)
    return made


@pytest.fixture
def source(machine: boards.Machine) -> Iterator[Tegrastats]:
    opened = Tegrastats(100, AGX)
    yield opened
    opened.close()


def until(source: Tegrastats, fits: Callable[[Reading], bool]) -> Reading:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        reading = source.read()
        if fits(reading):
            return reading
        time.sleep(0.01)
    raise AssertionError(f"never read; {source.problem!r}")


def has_power(reading: Reading) -> bool:
    return reading.power_w is not None


def has_nothing(reading: Reading) -> bool:
    return reading.sources == ()


def pid(source: Tegrastats) -> int:
    return source._process.pid


@pytest.mark.parametrize("name", boards.JETSONS)
def test_what_each_board_prints_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    board = boards.JETSONS[name]
    monkeypatch.setenv("PATH", boards.jetson(tmp_path, board).path)
    source = Tegrastats(100, MODULES[board.part])
    reading = until(source, has_power)
    source.close()
    assert (reading.gpu_percent, reading.gpu_mhz) == (92, 612)
    assert reading.power_w == pytest.approx(boards.AGX_WATTS)
    assert reading.temperatures_c == {"cpu": 55.5, "gpu": 53.25, "tj": 56}
    assert [core.online for core in reading.cores] == [True] * 8 + [False] * (board.cores - 8)
    assert reading.emc_mhz == (3199 if board.root else None)
    assert reading.bandwidth_gb_s == (pytest.approx(0.84 * 204.8) if board.root else None)


def test_the_time_of_a_reading_is_when_its_line_came_not_when_it_is_asked_for(
    source: Tegrastats,
) -> None:
    times = [until(source, has_power).at_ms]
    until(source, lambda reading: bool(times.append(reading.at_ms) or times[-1] == times[-2]))
    assert times[-1] < time.monotonic() * 1000


def test_without_the_program_there_is_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SourceUnavailable, match="no tegrastats on PATH"):
        Tegrastats(100)


def test_a_program_that_cannot_be_run_is_no_source(machine: boards.Machine) -> None:
    (machine.bin / "tegrastats").unlink()
    (machine.bin / "tegrastats").write_bytes(b"\x7fELF of another machine")
    (machine.bin / "tegrastats").chmod(0o755)
    with pytest.raises(SourceUnavailable, match="cannot be started"):
        Tegrastats(100)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_when_it_is_killed_it_is_started_again(
    source: Tegrastats, machine: boards.Machine, number: signal.Signals
) -> None:
    until(source, has_power)
    killed = pid(source)
    machine.tegrastats("VDD_IN 1000mW")
    os.kill(killed, number)
    reading = until(source, lambda reading: reading.power_w == 1)
    assert pid(source) != killed and reading.sources == ("tegrastats",)


def test_while_it_keeps_dying_nothing_is_read_and_the_reason_is_told(
    source: Tegrastats, machine: boards.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orin_llm.device.tegrastats._STALE_MS", 0)
    until(source, has_power)
    (machine.bin / "tegrastats").unlink()
    machine.tool("tegrastats", "exit 7")
    os.kill(pid(source), signal.SIGKILL)
    until(source, lambda reading: has_nothing(reading) and "exit status 7" in source.problem)
    (machine.bin / "tegrastats").unlink()
    machine.tegrastats(boards.AGX_64_JP6.line)
    until(source, has_power)
    assert source.problem == ""


def test_when_it_was_uninstalled_that_is_the_problem_until_it_is_back(
    source: Tegrastats, machine: boards.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orin_llm.device.tegrastats._STALE_MS", 0)
    until(source, has_power)
    (machine.bin / "tegrastats").rename(machine.bin / "gone")
    os.kill(pid(source), signal.SIGKILL)
    until(source, lambda reading: has_nothing(reading) and "cannot be started" in source.problem)
    (machine.bin / "gone").rename(machine.bin / "tegrastats")
    until(source, has_power)


def test_a_program_that_hangs_gives_nothing_old_and_goes_on_later(
    source: Tegrastats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orin_llm.device.tegrastats._STALE_MS", 0)
    until(source, has_power)
    os.killpg(pid(source), signal.SIGSTOP)
    until(source, has_nothing)
    assert source.problem == "tegrastats prints no more lines"
    os.killpg(pid(source), signal.SIGCONT)
    until(source, has_power)
    assert source.problem == ""


def test_lines_that_are_not_known_are_a_problem_and_their_words_are_kept(
    source: Tegrastats, machine: boards.Machine
) -> None:
    machine.tegrastats("wholly other words")
    reading = until(source, lambda reading: reading.unknown == ("wholly", "other", "words"))
    assert has_nothing(reading) and source.problem == "what tegrastats prints is not known here"
    machine.tegrastats("GR3D_FREQ 5%")
    assert until(source, lambda reading: reading.gpu_percent == 5).sources == ("tegrastats",)


@pytest.mark.parametrize(
    "garbage",
    ["head -c 300000 /dev/urandom", "head -c 300000 /dev/zero", "printf 'GR3D_FREQ 45%%@13'"],
    ids=["noise", "a line without end", "cut off in a number"],
)
def test_garbage_on_the_pipe_is_survived(machine: boards.Machine, garbage: str) -> None:
    (machine.bin / "tegrastats").unlink()
    flag = machine.bin / "was-here"
    machine.tool(
        "tegrastats",
        f"if [ ! -e {flag} ]; then touch {flag}; {garbage}; exit 1; fi\n"
        "while :; do echo 'VDD_IN 3000mW'; sleep 0.1 >/dev/null; done",
    )
    source = Tegrastats(100)
    seen: list[Reading] = []
    until(source, lambda reading: bool(seen.append(reading) or reading.power_w == 3))
    source.close()
    assert all(reading.gpu_percent is None for reading in seen)


def test_the_rest_of_a_line_that_is_too_long_is_no_line(machine: boards.Machine) -> None:
    (machine.bin / "tegrastats").unlink()
    machine.tool(
        "tegrastats",
        "head -c 20000 /dev/zero | tr '\\0' x; echo ' VDD_IN 9000mW'; sleep 0.3\n"
        "while :; do echo 'VDD_IN 3000mW'; sleep 0.1 >/dev/null; done",
    )
    source = Tegrastats(100)
    first = until(source, has_power)
    source.close()
    assert first.power_w == 3


def test_closing_ends_the_program_and_all_that_it_started(machine: boards.Machine) -> None:
    (machine.bin / "tegrastats").unlink()
    machine.tool(
        "tegrastats",
        "sleep 1000 &\nwhile :; do echo 'VDD_IN 3000mW'; sleep 0.1 >/dev/null; done",
    )
    source = Tegrastats(100)
    until(source, has_power)
    group = pid(source)
    source.close()
    end = time.monotonic() + PATIENCE_S
    while running := members(group):
        assert time.monotonic() < end, running
        time.sleep(0.01)
    assert not source._thread.is_alive()


def members(group: int) -> list[str]:
    """Processes of a group that run; those that have ended may wait for init."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, number = stat.read_text().rpartition(")")[2].split()[:3]
            if int(number) == group and state != "Z":
                found.append(stat.read_text())
    return found


def test_a_program_that_ignores_being_asked_to_end_is_killed(machine: boards.Machine) -> None:
    (machine.bin / "tegrastats").unlink()
    machine.tool(
        "tegrastats", "trap '' TERM; while :; do echo 'VDD_IN 3000mW'; sleep 0.1 >/dev/null; done"
    )
    source = Tegrastats(100)
    until(source, has_power)
    source.close()
    assert source._process.returncode == -signal.SIGKILL


def test_closing_while_it_keeps_dying_does_not_wait_for_the_next_start(
    machine: boards.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orin_llm.device.tegrastats._FIRST_PAUSE_S", 1e6)
    (machine.bin / "tegrastats").unlink()
    machine.tool("tegrastats", "exit 0")
    source = Tegrastats(100)
    until(source, lambda reading: "exit status 0" in source.problem)
    source.close()
    assert not source._thread.is_alive()


def test_closing_does_not_wait_for_what_a_wrapper_has_started_in_another_session(
    machine: boards.Machine,
) -> None:
    (machine.bin / "tegrastats").unlink()
    pipe = machine.root / "child"
    machine.tool(
        "tegrastats", f'setsid sh -c "echo \\$\\$ >{pipe}; exec sleep 600" & exec sleep 600'
    )
    opened = Tegrastats(100, AGX)
    end = time.monotonic() + PATIENCE_S
    while not (pipe.exists() and pipe.read_text().strip()) and time.monotonic() < end:
        time.sleep(0.01)
    closing = threading.Thread(target=opened.close, daemon=True)
    closing.start()
    closing.join(PATIENCE_S)
    is_closed = not closing.is_alive()
    os.kill(int(pipe.read_text()), signal.SIGKILL)
    assert is_closed
