"""Watches an engine while it works: its steps, and what its KV cache was asked for in them."""

from __future__ import annotations

import time

from orin_llm.bench.records import KvUse
from orin_llm.engine import Engine, StepRecord

_INTERVAL_S = 0.1  # the engine remembers 4096 steps


class Observer:
    """Looks now and then. `steps` and `kv()` tell what happened since it was made."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.steps: list[StepRecord] = []
        before = engine.step_log()
        self._newest = before[-1].number if before else 0
        self._first = engine.stats()["kv"]
        self._looked = 0.0

    def look(self) -> None:
        """Call often; what is too often is ignored."""
        if time.monotonic() - self._looked >= _INTERVAL_S:
            self.look_now()

    def look_now(self) -> None:
        """Call when all is done."""
        self._looked = time.monotonic()
        steps = self._engine.step_log(self._newest)
        if steps:
            self._newest = steps[-1].number
            self.steps += steps

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
