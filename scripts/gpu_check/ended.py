"""The end that a signal asks for."""

from __future__ import annotations

from types import FrameType


class Ended(KeyboardInterrupt):
    """A signal has asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def end(number: int, frame: FrameType | None) -> None:
    """A signal's handler."""
    raise Ended(number)
