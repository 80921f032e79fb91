"""Ctrl-C, SIGTERM and SIGHUP while the system is changed: they stop it where it can be stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from orin_llm.errors import OrinError
from orin_llm.host.signals import handled


class Stopped(OrinError):
    """A signal asked to stop. The exit code is the shell's: 128 and the signal's number."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number
        self.exit_code = 128 + number


class StopRequest:
    """The first signal that came, if any did."""

    def __init__(self, notice: bool) -> None:
        self._number = 0
        self._notice = notice

    def check(self) -> None:
        """Go on if no signal has come.

        Raises:
            Stopped: one has.
        """
        if self._number:
            raise Stopped(f"stopped by {_name(self._number)}", self._number)

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Note the signal; `check` is where it takes effect."""
        if self._number:
            return
        self._number = number
        if self._notice:  # past the stream, which may be in the middle of a line
            line = f"{_name(number)}: stops when the program that is running has ended\n"
            with suppress(OSError):
                os.write(2, line.encode())


@contextmanager
def signals_held(notice: bool = True) -> Iterator[StopRequest]:
    """Within the block, signals interrupt nothing: what is given has them, for `check`.

    Those that are ignored, as by nohup, stay so. `notice`: say on stderr that one has come. For
    the main thread only.
    """
    request = StopRequest(notice)
    with handled(request.receive):
        yield request


def _name(number: int) -> str:
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
