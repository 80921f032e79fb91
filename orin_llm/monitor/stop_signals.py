"""Signals that ask a program to end, as something that `select` waits for."""

from __future__ import annotations

import os
import signal
import time
from types import FrameType, TracebackType
from typing import Any

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_AGAIN_S = 1.0  # some send a signal to a process and once more to its group


class StopSignals:
    """While its `with` block runs, signals to end do nothing but to be noted here.

    For the main thread. A signal that was ignored before stays so. One that comes a second or more
    after the first ends the program at once, should something not come to its end.

    Attributes:
        number: of the first that came; None as long as none has.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._noted_s = 0.0
        self._reading, self._writing = -1, -1
        self._before: dict[int, Any] = {}

    def fileno(self) -> int:
        """Of a file descriptor that can be read from as soon as one has come."""
        return self._reading

    def __enter__(self) -> StopSignals:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._reading)
        os.close(self._writing)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.number is None:
            self.number, self._noted_s = number, time.monotonic()
            os.write(self._writing, b"\0")
        elif time.monotonic() - self._noted_s >= _AGAIN_S:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
