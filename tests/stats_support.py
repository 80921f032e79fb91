"""Sources of statistics that are no engines, in this process and in others."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from processes import environment, python

PROGRAM = """
    import sys
    from orin_llm.stats import StatsPublisher

    class Source:
        def describe(self): return {"model": sys.argv[1], "config": {"n_ctx": 64}}
        def stats(self): return {"answer": 42}

    source = Source()
    publisher = StatsPublisher(source)
    print(publisher.path or publisher.problem, flush=True)
"""


class Source:
    """Counts how often it was asked."""

    def __init__(self, model: str = "a.gguf") -> None:
        self.model = model
        self.values: dict[str, object] = {"pages": {"used": 3}}
        self.asked = 0

    def describe(self) -> dict[str, object]:
        return {"model": self.model, "config": {"n_ctx": 2048, "hooks": frozenset({"b", "a"})}}

    def stats(self) -> dict[str, object]:
        self.asked += 1
        return self.values


def publishing(model: str, folder: Path, rest: str = "sys.stdin.read()") -> subprocess.Popen[str]:
    """A process that publishes and then does the rest; by itself until its input ends."""
    return subprocess.Popen(
        python(PROGRAM + f"    {rest}", model),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(XDG_RUNTIME_DIR=str(folder)),
    )


def first_line(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().rstrip("\n"))


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for what must come, or fail after a time that no machine needs."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"{what} has not come"
        time.sleep(0.005)


def server_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "orin-llm-stats"]
