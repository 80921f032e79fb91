"""`orin-llm monitor --headless` as a process, and the board that it watches."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fakes import boards
from processes import CLI, environment
from stats_support import until

QUICK = ("--headless", "--interval", "0.1")


def board_at_50_w(folder: Path) -> boards.Machine:
    """A board in a mode of 50 W, which its 31 W do not reach."""
    made = boards.jetson(folder, boards.replace(boards.AGX_64_JP6, mode="MODE_50W"))
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


def on(machine: boards.Machine) -> tuple[str, str]:
    return "--root", str(machine.root)


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]
