"""An event loop whose clock stands still while there is work, and jumps to what is due next.

Delays take no time and are exact. Sockets on loopback work: before a jump it looks whether bytes
are on their way.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from orin_llm.bench.serve.session import Session

T = TypeVar("T")
_ON_THE_WAY_S = 0.003


class _Selector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    now_s = 1000.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        alone = len(self.get_map()) <= 1  # nothing but what wakes the loop itself
        wait_s = 0.0 if alone else _ON_THE_WAY_S
        ready = super().select(None if timeout is None else wait_s)
        if not ready and timeout is not None:
            self.now_s += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now_s


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Run it to its end in a loop of its own."""
    with Session(VirtualLoop()) as session:
        return session.call(work)
