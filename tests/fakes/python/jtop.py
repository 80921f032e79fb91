"""A stand-in for the client of jetson-stats. Tests set what its service tells."""

from __future__ import annotations

import threading
from datetime import timedelta
from itertools import count
from typing import Any

start_error: Exception | None = None
ok_error: Exception | None = None
running = True
answers = threading.Event()  # whether it answers who attaches
answers.set()
ticks = count()  # its clock; replaced by a `repeat` it stands still
attached: list[jtop] = []
memory: dict[str, Any] = {}
gpu: dict[str, Any] = {}
cpu: dict[str, Any] = {}
power: dict[str, Any] = {}
temperature: dict[str, Any] = {}


class Dictionary:
    """Readable like a dictionary, and nothing more."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content

    def __getitem__(self, name: str) -> Any:
        return self._content[name]

    def items(self) -> Any:
        return self._content.items()


class jtop:
    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.closed = threading.Event()

    def start(self) -> None:
        answers.wait()
        if start_error is not None:
            raise start_error
        attached.append(self)

    @property
    def uptime(self) -> timedelta:
        return timedelta(seconds=next(ticks))

    def ok(self, spin: bool = False) -> bool:
        assert spin, "waits for the service otherwise"
        if ok_error is not None:
            raise ok_error
        return running

    def close(self) -> None:
        self.closed.set()

    @property
    def memory(self) -> Dictionary:
        return Dictionary(memory)

    @property
    def gpu(self) -> Dictionary:
        return Dictionary(gpu)

    @property
    def cpu(self) -> dict[str, Any]:
        return cpu

    @property
    def power(self) -> dict[str, Any]:
        return power

    @property
    def temperature(self) -> dict[str, Any]:
        return temperature
