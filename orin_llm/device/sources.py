"""Which sources this machine has, found by trying them, and all of them as one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from orin_llm.device.board import Board
from orin_llm.device.jtop import Jtop
from orin_llm.device.nvml import Nvml
from orin_llm.device.procfs import Procfs
from orin_llm.device.reading import Reading, merge
from orin_llm.device.source import Source, SourceUnavailable
from orin_llm.device.sysfs import Sysfs
from orin_llm.device.tegrastats import MIN_INTERVAL_MS, Tegrastats
from orin_llm.errors import DeviceUnavailable, UsageError

SOURCE_NAMES = ("tegrastats", "sysfs", "jtop", "nvml", "procfs")


class Sensors:
    """Several sources, the best first, read as one. To be used with `with`, or closed.

    Attributes:
        sources: those that this machine has.
        unavailable: the names of the others, and why.
    """

    name = "auto"

    def __init__(self, sources: tuple[Source, ...], unavailable: Mapping[str, str]) -> None:
        self.sources = sources
        self.unavailable = unavailable

    def read(self) -> Reading:
        """The sensors now, each from the first source that can read it."""
        readings = [source.read() for source in self.sources]
        return merge(time.monotonic() * 1000, readings)

    @property
    def problems(self) -> dict[str, str]:
        """Why sources that should give readings do not, by name."""
        return {source.name: source.problem for source in self.sources if source.problem}

    @property
    def problem(self) -> str:
        """Those in one line, or ""."""
        return "; ".join(self.problems.values())

    def close(self) -> None:
        """Close every source."""
        for source in self.sources:
            source.close()

    def __enter__(self) -> Sensors:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_sensors(
    board: Board, interval_ms: float, choice: str = "auto", root: Path = Path("/")
) -> Sensors:
    """Open every source that the machine has, or only the one that is chosen.

    `interval_ms` is how often they will be read; `root` stands for `/`.

    Raises:
        UsageError: there is no source of that name.
        DeviceUnavailable: this machine does not have it, or has none at all.
    """
    if choice not in ("auto", *SOURCE_NAMES):
        raise UsageError(f"no source {choice!r}: choose auto, {', '.join(SOURCE_NAMES)}")
    makers: dict[str, Callable[[], Source]] = {
        "tegrastats": lambda: Tegrastats(interval_ms, board.module),
        "sysfs": lambda: Sysfs(root),
        "jtop": lambda: Jtop(interval_ms, board.module),
        "nvml": Nvml,
        "procfs": lambda: Procfs(root),
    }
    opened: list[Source] = []
    unavailable: dict[str, str] = {}
    for name in _order(interval_ms) if choice == "auto" else (choice,):
        try:
            opened.append(makers[name]())
        except SourceUnavailable as error:
            unavailable[name] = str(error)
    if not opened:
        reasons = "; ".join(f"{name}: {why}" for name, why in unavailable.items())
        raise DeviceUnavailable(f"no sensor can be read here ({reasons}). Try --source auto")
    return Sensors(tuple(opened), unavailable)


def _order(interval_ms: float) -> tuple[str, ...]:
    """The best first. What is read more often than tegrastats prints is read from the kernel."""
    if interval_ms >= MIN_INTERVAL_MS:
        return SOURCE_NAMES
    return ("sysfs", "procfs", "tegrastats", "jtop", "nvml")
