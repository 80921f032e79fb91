"""Waiting between runs until the machine is as cool as it was before them."""

from __future__ import annotations

import time
from collections.abc import Callable

from orin_llm.bench.watch import Watch
from orin_llm.errors import DeviceUnavailable, UsageError

MARGIN_C = 2.0  # sensors move by a degree when nothing happens
MAX_LIMIT_S = 3600
_LOOK_S = 1.0


class CoolDown:
    """Call before each run. The first call notes how hot the machine is, the others wait."""

    def __init__(
        self,
        hottest_c: Callable[[], float | None],
        limit_s: float,
        say: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """
        Args:
            hottest_c: reads the hottest sensor; None where none can be read.
            limit_s: seconds to wait at most, each time.
            say: told when it waits, and when it has waited in vain, in one line.
        """
        self._hottest_c = hottest_c
        self._limit_s = limit_s
        self._say = say
        self._clock = clock
        self._sleep = sleep
        self._before_c: float | None = None

    def __call__(self) -> None:
        now_c = self._hottest_c()
        if self._before_c is None:
            self._before_c = now_c
        if now_c is None or self._before_c is None:
            return
        wanted_c = self._before_c + MARGIN_C
        if now_c <= wanted_c:
            return
        self._say(f"cooling down: {now_c:.1f} °C, {wanted_c:.1f} °C wanted")
        end = self._clock() + self._limit_s
        while now_c is not None and now_c > wanted_c:
            if self._clock() >= end:
                self._say(f"still {now_c:.1f} °C after {self._limit_s:g} s: going on")
                return
            self._sleep(_LOOK_S)
            now_c = self._hottest_c()


def require_limit(limit_s: float) -> None:
    """UsageError where `--cool-down` is no time to wait."""
    if not 0 <= limit_s <= MAX_LIMIT_S:
        raise UsageError(f"--cool-down is {limit_s:g} s: expected 0 … {MAX_LIMIT_S}")


def cool_down(limit_s: float, watch: Watch, say: Callable[[str], None]) -> Callable[[], None]:
    """What waits before a run, for `limit_s` at most; 0: nothing does.

    Raises:
        DeviceUnavailable: it could not know how long.
    """
    if not limit_s:
        return lambda: None
    sampler = watch.sampler
    if sampler is None or sampler.sample().hottest_c is None:
        raise DeviceUnavailable("no temperature can be read here: leave --cool-down out")
    return CoolDown(lambda: sampler.sample().hottest_c, limit_s, say)
