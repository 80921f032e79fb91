"""Signals that ask a program to end, and a handler of theirs for as long as a block runs."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# The last is sent when the terminal is closed, or the network to it fails.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def handled(
    handler: Callable[[int, FrameType | None], None], *, ignored_too: bool = False
) -> Iterator[None]:
    """Within the block, call `handler` for each that comes. For the main thread only.

    Those that are ignored, as by nohup, stay so unless `ignored_too`.
    """
    before = {number: signal.getsignal(number) for number in ENDING}
    taken = [number for number in ENDING if ignored_too or before[number] is not signal.SIG_IGN]
    for number in taken:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])
