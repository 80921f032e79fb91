"""The end that a signal asks for."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from orin_llm.host.signals import handled


class Ended(KeyboardInterrupt):
    """A signal has asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def end(number: int, frame: FrameType | None) -> None:
    """A signal's handler."""
    raise Ended(number)


@contextmanager
def held() -> Iterator[None]:
    """Within the block none asks; one that came then asks at its end. For the main thread only."""
    came: list[int] = []
    try:
        with handled(lambda number, frame: came.append(number)):
            yield
    finally:
        for number in came:
            signal.raise_signal(number)
