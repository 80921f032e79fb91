"""Signals that ask a program to end, as something that `select` waits for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from orin_llm.host.signals import handled

_AGAIN_S = 1.0  # some send a signal to a process and once more to its group


class StopSignals:
    """Signals to end that have come.

    Attributes:
        number: of the first that came; None as long as none has.
    """

    def __init__(self, reading: int) -> None:
        """The end of a pipe that becomes readable with the first."""
        self.number: int | None = None
        self._noted_s = 0.0
        self._reading = reading

    def fileno(self) -> int:
        """Of a file descriptor that can be read from as soon as one has come."""
        return self._reading

    def note(self, number: int, frame: FrameType | None) -> None:
        """The handler of the signals."""
        if self.number is None:
            self.number, self._noted_s = number, time.monotonic()
        elif time.monotonic() - self._noted_s >= _AGAIN_S:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Within the block, signals to end do nothing but to be noted in what is given.

    For the main thread. A signal that was ignored before stays so. One that comes a second or more
    after the first ends the program at once, should something not come to its end.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    stop = StopSignals(reading)
    # Written to when a signal comes, not when its handler runs: that waits for `select` to return.
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        with handled(stop.note):
            yield stop
    finally:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)
