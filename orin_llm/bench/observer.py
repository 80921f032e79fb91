"""Watches an engine while it works: its steps, and its KV cache when most of it is in use."""

from __future__ import annotations

import time
from typing import Any

from orin_llm.bench.records import KvUse
from orin_llm.engine import Engine, StepRecord

_INTERVAL_S = 0.02  # often enough for the log of steps, seldom enough to cost nothing


class Observer:
    """Looks now and then. `steps` and `kv()` tell what was seen since it was made."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.steps: list[StepRecord] = []
        before = engine.step_log()
        self._newest = before[-1].number if before else 0
        self._first = self._last = self._fullest = engine.stats()["kv"]
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
        self._last = self._engine.stats()["kv"]
        if self._last is not None and self._last["bytes_used"] >= self._fullest["bytes_used"]:
            self._fullest = self._last

    def kv(self) -> KvUse | None:
        """The KV cache when most of it was in use; None where nothing is paged."""
        if self._last is None:
            return None
        fullest: dict[str, Any] = self._fullest
        return KvUse(
            bytes_used=fullest["bytes_used"],
            bytes_committed=fullest["bytes_committed"],
            bytes_reserved=fullest["bytes_reserved"],
            fragmentation=fullest["fragmentation"],
            lookups=self._last["lookups"] - self._first["lookups"],
            misses=self._last["misses"] - self._first["misses"],
        )
