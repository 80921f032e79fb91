"""Watches an engine while it works: its steps, its KV cache, and the machine's sensors."""

from __future__ import annotations

import time

from orin_llm.bench.records import KvUse
from orin_llm.bench.watch import SensorLog
from orin_llm.device.reading import Reading
from orin_llm.device.sampler import Sampler
from orin_llm.engine import Engine, StepRecord

_INTERVAL_S = 0.1  # the engine remembers 4096 steps


class Observer:
    """Looks now and then. All that it tells happened since it was made.

    Attributes:
        steps: of the engine.
    """

    def __init__(self, engine: Engine, sampler: Sampler | None = None) -> None:
        self._engine = engine
        self._sensors = SensorLog(sampler)
        self.steps: list[StepRecord] = []
        before = engine.step_log()
        self._newest = before[-1].number if before else 0
        self._first = engine.stats()["kv"]
        self._looked = 0.0

    def look(self) -> None:
        """Call often; what is too often is ignored."""
        if time.monotonic() - self._looked >= _INTERVAL_S:
            self._look_now()

    def _look_now(self) -> None:
        self._looked = time.monotonic()
        steps = self._engine.step_log(self._newest)
        if steps:
            self._newest = steps[-1].number
            self.steps += steps
        self._sensors.look()

    def end(self) -> tuple[Reading, ...]:
        """Call when all is done: the readings of the sensors, none without a sampler."""
        self._look_now()
        return self._sensors.end()

    def kv(self) -> KvUse | None:
        """Of all steps so far; None where nothing is paged."""
        last = self._engine.stats()["kv"]
        if last is None:
            return None
        return KvUse(
            token_bytes=self._engine.kv_row_bytes,
            bytes_reserved=last["bytes_reserved"],
            lookups=last["lookups"] - self._first["lookups"],
            misses=last["misses"] - self._first["misses"],
        )
