"""Puts a load on a server: requests when they are due, or each as soon as another has ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from orin_llm.bench.serve.client import Order, Outcome

LAG_INTERVAL_S = 0.01
_MOST_LAGS = 1 << 16
_PAUSE_S = 0.1  # of a user after a failure: a server that refuses at once is not asked at once


class Server(Protocol):
    """Who answers."""

    async def complete(self, order: Order, due_ms: float) -> Outcome: ...


@dataclass
class Served:
    """What came of a load, in the order in which requests ended.

    Attributes:
        begin_ms: of the load.
        lag_ms: by how much this program itself woke up too late, looked at now and then.
        stopped: it was ended before all of it was done.
    """

    begin_ms: float
    outcomes: list[Outcome] = field(default_factory=list)
    lag_ms: list[float] = field(default_factory=list)
    stopped: bool = False


@dataclass(frozen=True)
class Driver:
    """How requests are made.

    Attributes:
        users: in a closed loop: how many there are, each asking again when it has its answer; in an
            open one the most requests at once, the others wait here; None: no limit.
        closed: whether requests follow one another, not a clock.
        ramp_s: while which users begin, evenly; requests that are sent in it are not counted.
        duration_s: after the ramp, in which requests are sent; None: until there are no more.
        counted: requests, without those of the ramp, after which no more are sent; None: no limit.
    """

    users: int | None
    closed: bool
    ramp_s: float = 0.0
    duration_s: float | None = None
    counted: int | None = None

    async def run(
        self,
        orders: Iterator[Order],
        server: Server,
        stop: asyncio.Event,
        ended: Callable[[Outcome], None] = lambda _: None,
    ) -> Served:
        """Run a load to its end.

        Args:
            orders: those of an open loop in the order in which they are due.
            stop: set from outside, it ends the load: nothing more is sent, and what runs is given
                up.
            ended: told each outcome.
        """
        begin_s = asyncio.get_running_loop().time()
        served = Served(begin_s * 1e3)
        state = _Load(self, orders, server, served, ended, begin_s)
        work = asyncio.ensure_future(state.closed_loop() if self.closed else state.open_loop())
        stopping = asyncio.ensure_future(stop.wait())
        async with _lag_watch(served.lag_ms):
            try:
                await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
                served.stopped = not work.done()
            finally:
                for task in (work, stopping):
                    task.cancel()
                found = await asyncio.gather(work, stopping, return_exceptions=True)
        if isinstance(found[0], Exception):
            raise found[0]
        return served


@dataclass
class _Load:
    """One load while it runs."""

    driver: Driver
    orders: Iterator[Order]
    server: Server
    served: Served
    ended: Callable[[Outcome], None]
    begin_s: float
    sent: int = 0

    async def open_loop(self) -> None:
        loop = asyncio.get_running_loop()
        limit = asyncio.Semaphore(self.driver.users or 1 << 30)
        tasks: set[asyncio.Task[Outcome]] = set()
        try:
            while (order := self._next(None)) is not None:
                due_s = self.begin_s + order.at_s
                await asyncio.sleep(max(0.0, due_s - loop.time()))
                task = loop.create_task(self._send(order, due_s, limit))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def closed_loop(self) -> None:
        users = self.driver.users or 1
        tasks = [asyncio.ensure_future(self._user(n / users)) for n in range(users)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _user(self, place: float) -> None:
        """One that asks again and again; `place` in the row of those that begin, 0 … 1."""
        loop = asyncio.get_running_loop()
        if place:
            await asyncio.sleep(place * self.driver.ramp_s)
        while (order := self._next(loop.time() - self.begin_s)) is not None:
            if (await self._send(order, loop.time())).record.error:
                await asyncio.sleep(_PAUSE_S)

    def _next(self, at_s: float | None) -> Order | None:
        """The next request, unless enough were sent; `at_s` in a closed loop: when it is sent."""
        driver = self.driver
        if driver.counted is not None and self.sent >= driver.counted:
            return None
        order = next(self.orders, None)
        if order is None:
            return None
        at_s = order.at_s if at_s is None else at_s
        if driver.duration_s is not None and at_s >= driver.ramp_s + driver.duration_s:
            return None
        if at_s < driver.ramp_s:
            return replace(order, role="ramp")
        self.sent += 1
        return order

    async def _send(
        self, order: Order, due_s: float, limit: asyncio.Semaphore | None = None
    ) -> Outcome:
        async with limit or contextlib.nullcontext():
            outcome = await self.server.complete(order, due_s * 1e3)
        self.served.outcomes.append(outcome)
        self.ended(outcome)
        return outcome


@contextlib.asynccontextmanager
async def _lag_watch(lag_ms: list[float]) -> AsyncIterator[None]:
    async def watch() -> None:
        loop = asyncio.get_running_loop()
        interval_s = LAG_INTERVAL_S
        while True:
            due_s = loop.time() + interval_s
            await asyncio.sleep(interval_s)
            lag_ms.append((loop.time() - due_s) * 1e3)
            if len(lag_ms) >= _MOST_LAGS:  # of a load that runs for days: look half as often
                del lag_ms[::2]
                interval_s *= 2

    task = asyncio.ensure_future(watch())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
