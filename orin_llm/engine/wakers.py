"""Event loops learn that an engine has handed something out without waiting in a thread."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable

from orin_llm import _native
from orin_llm.errors import OrinError


class LoopWaker:
    """Wakes the coroutines of one event loop. All but the constructor's thread is the loop's."""

    def __init__(self, runner: _native.Runner, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._runner = runner
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        # 1: it rings at once, for what was handed out before it was there.
        self._fd = os.eventfd(1, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # A loop that ends before it does what it was asked to drops that, and this with it.
        self._close_fd = weakref.finalize(self, os.close, self._fd)
        self._close_fd.atexit = False
        runner.add_doorbell(self._fd)
        loop.add_reader(self._fd, self._ring)

    async def wait(self, is_there: Callable[[], bool]) -> None:
        """Until what this coroutine waits for is there, asked whenever something was handed out.

        Or until the engine is closed.
        """
        waiter = self._loop.create_future()
        self._waiting[waiter] = is_there
        try:
            await waiter
        finally:
            del self._waiting[waiter]

    def _ring(self) -> None:
        os.eventfd_read(self._fd)
        self._wake(lambda is_there: is_there())

    def _wake(self, chosen: Callable[[Callable[[], bool]], bool]) -> None:
        for waiter, is_there in self._waiting.items():
            if not waiter.done() and chosen(is_there):
                waiter.set_result(None)

    def close(self) -> None:
        """From any thread; coroutines that wait look once more."""
        self._runner.remove_doorbell(self._fd)
        try:
            self._loop.call_soon_threadsafe(self._end)
        except RuntimeError:  # the loop is closed, and waits for nothing
            self._close_fd()

    def _end(self) -> None:
        self._loop.remove_reader(self._fd)
        self._close_fd()
        self._wake(lambda _: True)


class LoopWakers:
    """One for each event loop that waits for this engine."""

    def __init__(self, runner: _native.Runner) -> None:
        self._runner: _native.Runner | None = runner
        self._lock = threading.Lock()
        self._wakers: dict[asyncio.AbstractEventLoop, LoopWaker] = {}

    def of_running_loop(self) -> LoopWaker:
        """That of the loop that runs here. Raises OrinError when the engine is closed."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._runner is None:
                raise OrinError("this engine is closed: make a new one")
            if loop not in self._wakers:
                self._drop_closed_loops()
                self._wakers[loop] = LoopWaker(self._runner, loop)
            return self._wakers[loop]

    def _drop_closed_loops(self) -> None:
        for loop in [loop for loop in self._wakers if loop.is_closed()]:
            self._wakers.pop(loop).close()

    def close(self) -> None:
        """After the engine's thread has ended."""
        with self._lock:
            for waker in self._wakers.values():
                waker.close()
            self._wakers.clear()
            self._runner = None  # or the engine's memory would live as long as this
