"""The feed of the machine as it is now."""

from __future__ import annotations

import time

from orin_llm.device.sources import Sensors
from orin_llm.monitor.engines import EngineWatch
from orin_llm.monitor.snapshot import Snapshot, Subject


class LiveFeed:
    """Reads the sensors, and each engine's newest line, whenever it is asked."""

    note = ""

    def __init__(
        self, sensors: Sensors, engines: EngineWatch, subject: Subject, interval_s: float
    ) -> None:
        self.subject = subject
        self.interval_s = interval_s
        self._sensors = sensors
        self._engines = engines

    @property
    def problems(self) -> dict[str, str]:
        """Why sources or engines give nothing now, by their names."""
        return {**self._sensors.problems, **self._engines.problems}

    def next(self) -> Snapshot:
        """The machine now."""
        reading = self._sensors.read()
        return Snapshot(time.time() * 1e3, reading, self._engines.samples())

    def settle(self, timeout_s: float) -> None:
        """Wait until sources and engines have said something, but not for much longer than this.

        For who wants one snapshot only.
        """
        end_s = time.monotonic() + timeout_s
        self._engines.settle(timeout_s)
        while self._sensors.problems and time.monotonic() < end_s:
            time.sleep(0.05)

    def close(self) -> None:
        """Close the sensors, and stop listening to engines."""
        self._engines.close()
        self._sensors.close()
