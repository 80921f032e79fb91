"""Readings taken in the background, at a fixed rate, into a bounded memory."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from itertools import takewhile
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from orin_llm.device.energy import EnergyMeter
from orin_llm.device.phases import Activity, Phases, activity, step_phases
from orin_llm.device.reading import Reading
from orin_llm.errors import UsageError

if TYPE_CHECKING:
    from orin_llm.engine.step_record import StepRecord

MIN_INTERVAL_MS, MAX_INTERVAL_MS = 10, 10_000
KEPT = 4096  # readings, as many as the engine keeps steps: some megabytes
_GAP_INTERVALS = 5  # readings missed before the time between two is not believed
MIN_GAP_MS = 1000


def require_interval(interval_ms: float) -> None:
    """Raise UsageError where nobody can read that often, or would call it reading."""
    if not MIN_INTERVAL_MS <= interval_ms <= MAX_INTERVAL_MS:
        raise UsageError(
            f"an interval of {interval_ms:g} ms between readings is not within "
            f"{MIN_INTERVAL_MS} … {MAX_INTERVAL_MS} ms"
        )


class Readable(Protocol):
    """What a sampler reads."""

    def read(self) -> Reading: ...


class Sampler:
    """Reads sensors in a thread of its own while its `with` block runs.

    The newest `kept` readings stay; the energy is that of all. A source that fails leaves holes.
    Closing the sensors is the caller's.
    """

    def __init__(self, sensors: Readable, interval_ms: float = 100, kept: int = KEPT) -> None:
        """Prepare; nothing is read before the block is entered.

        Raises:
            UsageError: the interval is not within 10 … 10000 ms, or no reading would be kept.
        """
        require_interval(interval_ms)
        if kept < 2:
            raise UsageError(f"{kept} readings to keep: at least 2 are needed to compare")
        self.interval_ms = interval_ms
        self.max_gap_ms = max(MIN_GAP_MS, _GAP_INTERVALS * interval_ms)
        self._sensors = sensors
        self._readings: deque[Reading] = deque(maxlen=kept)
        self._energy = EnergyMeter(self.max_gap_ms)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Take a last reading, so that work which has just ended is covered, and end the thread."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            self.sample()

    def sample(self) -> Reading:
        """Take a reading now, besides those of the thread."""
        reading = self._sensors.read()
        with self._lock:
            if not self._readings or reading.at_ms > self._readings[-1].at_ms:
                self._readings.append(reading)
                self._energy.add(reading.at_ms, reading.power_w)
        return reading

    @property
    def latest(self) -> Reading | None:
        """The newest reading."""
        with self._lock:
            return self._readings[-1] if self._readings else None

    def readings(self, after_ms: float = float("-inf")) -> list[Reading]:
        """Those that are kept and were taken later than that; the oldest first."""
        with self._lock:
            newest_first = takewhile(lambda r: r.at_ms > after_ms, reversed(self._readings))
            return list(newest_first)[::-1]

    @property
    def energy_j(self) -> float | None:
        """Energy since the start, of the time in which power could be read; None: never."""
        with self._lock:
            return self._energy.joules

    def during(self, start_ms: float, end_ms: float) -> Activity:
        """What the device did in an interval of the clock of `time.monotonic()`."""
        return activity(self.readings(), [(start_ms, end_ms)], self.max_gap_ms)

    def phases(self, steps: Iterable[StepRecord]) -> Phases:
        """What the device did in the engine's steps, as `Engine.step_log` gives them."""
        return step_phases(self.readings(), steps, self.max_gap_ms)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            self.sample()
            due += self.interval_ms / 1000
            late = time.monotonic() - due
            if late > 0:  # reading took longer than the interval: go on from now, never in a burst
                due += late
            self._stop.wait(max(0.0, due - time.monotonic()))
