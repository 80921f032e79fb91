"""The machine while something is measured on it: how it is set, and what its sensors read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from orin_llm.device.board import read_board
from orin_llm.device.modules import MODULES, Module
from orin_llm.device.reading import Reading
from orin_llm.device.sampler import MIN_GAP_MS, Sampler, require_interval
from orin_llm.device.sources import open_sensors
from orin_llm.device.stamp import Stamp, read_stamp
from orin_llm.errors import DeviceUnavailable

INTERVAL_MS = 100.0  # between readings: tegrastats prints no faster


@dataclass(frozen=True)
class Watch:
    """A machine that is watched.

    Attributes:
        sampler: reads the sensors meanwhile; None where nobody does.
        at_start: the sensors before anything was measured; None with no sampler.
    """

    stamp: Stamp
    sampler: Sampler | None = None
    at_start: Reading | None = None

    @property
    def module(self) -> Module | None:
        """The board's; None on other machines."""
        return MODULES.get(self.stamp.module or "")

    @property
    def max_gap_ms(self) -> float:
        """Readings further apart do not tell of the time between them."""
        return self.sampler.max_gap_ms if self.sampler else MIN_GAP_MS


@contextmanager
def watching(
    root: Path = Path("/"), *, readings: bool = True, interval_ms: float = INTERVAL_MS
) -> Iterator[Watch]:
    """Watch this machine inside of a `with` block; `root` stands for `/`.

    Without `readings`, and on a machine where no sensor can be read, it is only stamped.

    Raises:
        UsageError: the interval is not within 10 … 10000 ms.
    """
    require_interval(interval_ms)
    stamp = read_stamp(root)
    with ExitStack() as open_things:
        sampler = at_start = None
        if readings:
            with suppress(DeviceUnavailable):
                sensors = open_sensors(read_board(root), interval_ms, root=root)
                open_things.enter_context(sensors)
                sampler = open_things.enter_context(Sampler(sensors, interval_ms))
                at_start = sampler.sample()
        yield Watch(stamp, sampler, at_start)


class SensorLog:
    """The readings from right before some work to right after it; none without a sampler.

    Without what they say of single cores and what is not known: that is most of their memory, and
    work may take hours.
    """

    def __init__(self, sampler: Sampler | None) -> None:
        self._sampler = sampler
        self._readings = [_slim(sampler.sample())] if sampler else []

    def look(self) -> None:
        """Take what is there: a sampler keeps only so many."""
        if self._sampler:
            new = self._sampler.readings(self._readings[-1].at_ms)
            self._readings += map(_slim, new)

    def end(self) -> tuple[Reading, ...]:
        """All of them, when the work is done."""
        if self._sampler:
            self._sampler.sample()
        self.look()
        return tuple(self._readings)


def _slim(reading: Reading) -> Reading:
    return replace(reading, cores=(), unknown=())
