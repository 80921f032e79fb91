"""Which sources this machine has, found by trying them, and all of them as one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from orin_llm.closeable import Closeable
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
_RETRY_S = 30.0
_END_S = 2.0

Maker = Callable[[], Source]  # raises SourceUnavailable


class Sensors(Closeable):
    """Several sources, the best first, read as one. To be used with `with`, or closed.

    One that is not there yet, such as a service that starts late, is tried again while the others
    are read.

    Attributes:
        sources: those that this machine has.
        unavailable: the names of the others, and why.
    """

    name = "auto"

    def __init__(self, makers: Mapping[str, Maker]) -> None:
        """Open those that are there, of these by name, the best first."""
        self.sources: tuple[Source, ...] = ()
        self.unavailable: dict[str, str] = {}
        self._makers = dict(makers)
        self._lock = threading.Lock()
        self._closed = False
        self._search: threading.Thread | None = None
        self._open(makers)
        self._searched_s = time.monotonic()

    def read(self) -> Reading:
        """The sensors now, each from the first source that can read it."""
        self._search_now_and_then()
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
        with self._lock:
            self._closed = True
        if self._search is not None:
            self._search.join(_END_S)  # one that hangs closes by itself what it still opens
        for source in self.sources:
            source.close()

    def _search_now_and_then(self) -> None:
        with self._lock:  # whoever reads at the same time searches no second time
            now_s = time.monotonic()
            missing = {name: self._makers[name] for name in self.unavailable}
            searching = self._search is not None and self._search.is_alive()
            if self._closed or searching or not missing or now_s - self._searched_s < _RETRY_S:
                return
            self._searched_s = now_s
            # In a thread of its own: a driver or service that is just starting may take its time.
            self._search = threading.Thread(
                target=self._open, args=(missing,), name="sensors", daemon=True
            )
            self._search.start()

    def _open(self, makers: Mapping[str, Maker]) -> None:
        for name, make in makers.items():
            if self._closed:
                return
            try:
                source = make()
            except SourceUnavailable as error:
                self.unavailable = {**self.unavailable, name: str(error)}
            else:
                self._add(source)

    def _add(self, source: Source) -> None:
        with self._lock:
            if self._closed:
                source.close()
                return
            order = list(self._makers)
            self.sources = tuple(
                sorted((*self.sources, source), key=lambda source: order.index(source.name))
            )
            self.unavailable = {
                name: why for name, why in self.unavailable.items() if name != source.name
            }


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
    makers: dict[str, Maker] = {
        "tegrastats": lambda: Tegrastats(interval_ms, board.module),
        "sysfs": lambda: Sysfs(root),
        "jtop": lambda: Jtop(interval_ms, board.module),
        "nvml": Nvml,
        "procfs": lambda: Procfs(root),
    }
    names = _order(interval_ms) if choice == "auto" else (choice,)
    sensors = Sensors({name: makers[name] for name in names})
    if not sensors.sources:
        reasons = "; ".join(f"{name}: {why}" for name, why in sensors.unavailable.items())
        raise DeviceUnavailable(f"no sensor can be read here ({reasons}). Try --source auto")
    return sensors


def _order(interval_ms: float) -> tuple[str, ...]:
    """The best first. What is read more often than tegrastats prints is read from the kernel."""
    if interval_ms >= MIN_INTERVAL_MS:
        return SOURCE_NAMES
    return ("sysfs", "procfs", "tegrastats", "jtop", "nvml")
