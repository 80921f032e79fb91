"""Signals that end the view, also when its terminal takes nothing any more."""

from __future__ import annotations

import os
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from orin_llm.host.signals import ENDING, handled

GRACE_S = 5.0  # for the app to end by itself
# The ordinary screen, the cursor, wrapping, and keys as they are sent without asking.
_RESTORE = b"\x1b[<u\x1b[?2004l\x1b[?7h\x1b[?1004l\x1b[?1049l\x1b[?25h"


@contextmanager
def ended_by_signals(end: Callable[[int], None]) -> Iterator[None]:
    """Calls `end` with the exit code, 128 and the signal's number, when a signal comes.

    In a thread of its own: one that comes just before the main thread waits does not wake it.

    An app that waits for its terminal, as that of a connection that is gone but not yet closed,
    cannot end. After `GRACE_S` the process does, and leaves the terminal as well as it can.
    """
    attributes = _terminal_attributes()
    has_ended = threading.Event()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def watch() -> None:
        while number := os.read(reading, 1):  # nothing when the block has ended
            if number[0] in ENDING:
                code = 128 + number[0]
                end(code)
                if not has_ended.wait(GRACE_S):
                    _give_up(code, attributes)

    watchdog = threading.Thread(target=watch, name="orin-llm-signals", daemon=True)
    watchdog.start()
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        # Also those that are ignored: the driver tells by SIGHUP that the terminal is gone.
        with handled(lambda number, frame: None, ignored_too=True):
            yield
    finally:
        signal.set_wakeup_fd(before)
        has_ended.set()
        os.close(writing)
        watchdog.join()
        os.close(reading)


def _terminal_attributes() -> list[Any] | None:
    try:
        return termios.tcgetattr(sys.stdin.fileno())
    except (termios.error, OSError, ValueError):
        return None


def _give_up(code: int, attributes: list[Any] | None) -> None:
    writer = threading.Thread(target=_restore, daemon=True)  # it may wait for ever
    writer.start()
    writer.join(0.5)
    if attributes is not None:
        with suppress(termios.error):  # it is gone
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, attributes)
    os._exit(code)


def _restore() -> None:
    with suppress(OSError):  # it is gone
        os.write(sys.stdout.fileno(), _RESTORE)
