"""An event loop between whose runs other work is done, and which Ctrl-C ends in order."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from orin_llm.closeable import Closeable

T = TypeVar("T")


class Session(Closeable):
    """Runs coroutines, one after another, in one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """`loop` is closed with it; None for a new one."""
        self._loop = loop or asyncio.new_event_loop()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it to its end and give its result, or raise its error."""
        return self._loop.run_until_complete(work)

    @contextlib.contextmanager
    def stop_on_interrupt(self, stop: asyncio.Event) -> Iterator[None]:
        """Let Ctrl-C set `stop` instead of breaking off what runs; a second one breaks it off.

        Only a program's main thread can be told of signals; elsewhere all stays as it is.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupted() -> None:
            stop.set()
            self._loop.remove_signal_handler(signal.SIGINT)

        before = signal.getsignal(signal.SIGINT)
        if before is not signal.default_int_handler:  # whoever ignores it, or has an own way
            yield
            return
        self._loop.add_signal_handler(signal.SIGINT, interrupted)
        try:
            yield
        finally:
            self._loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, before)

    def close(self) -> None:
        """End what still runs, and the loop."""
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.call(_ended(tasks))
        self.call(self._loop.shutdown_default_executor())
        self._loop.close()


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
