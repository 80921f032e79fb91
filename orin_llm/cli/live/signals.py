"""Signals that end the view, also when its terminal takes nothing any more."""

from __future__ import annotations

import os
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from orin_llm.host.signals import handled

GRACE_S = 5.0  # for the app to end by itself
# The ordinary screen, the cursor, wrapping, and keys as they are sent without asking.
_RESTORE = b"\x1b[<u\x1b[?2004l\x1b[?7h\x1b[?1004l\x1b[?1049l\x1b[?25h"


@contextmanager
def ended_by_signals(end: Callable[[int], None]) -> Iterator[None]:
    """Calls `end` with the exit code, 128 and the signal's number, when a signal comes.

    An app that waits for its terminal, as that of a connection that is gone but not yet closed,
    cannot end. After `GRACE_S` the process does, and leaves the terminal as well as it can.
    """
    before = _terminal_attributes()
    watchdogs: list[threading.Timer] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        code = 128 + number
        watchdog = threading.Timer(GRACE_S, _give_up, (code, before))
        watchdog.daemon = True
        watchdog.start()
        watchdogs.append(watchdog)
        end(code)

    # Also those that are ignored: the driver tells by SIGHUP that the terminal is gone.
    with handled(on_signal, ignored_too=True):
        try:
            yield
        finally:
            for watchdog in watchdogs:
                watchdog.cancel()


def _terminal_attributes() -> list[Any] | None:
    try:
        return termios.tcgetattr(sys.stdin.fileno())
    except (termios.error, OSError, ValueError):
        return None


def _give_up(code: int, attributes: list[Any] | None) -> None:
    writer = threading.Thread(target=os.write, args=(sys.stdout.fileno(), _RESTORE), daemon=True)
    writer.start()
    writer.join(0.5)
    if attributes is not None:
        with suppress(termios.error):  # it is gone
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, attributes)
    os._exit(code)
