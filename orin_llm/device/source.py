"""What a source of readings is."""

from __future__ import annotations

from typing import Protocol

from orin_llm.device.reading import Reading


class SourceUnavailable(Exception):
    """A source that this machine does not have. The message says why."""


class Source(Protocol):
    """Something that sensors can be read from.

    A source never raises once it is made: a sensor that fails is missing in the reading until it
    can be read again, and `problem` says what is wrong.

    Attributes:
        name: as users choose it.
        problem: why little or nothing is read now, or "".
    """

    name: str

    @property
    def problem(self) -> str: ...

    def read(self) -> Reading:
        """The sensors now; what cannot be read is missing."""

    def close(self) -> None:
        """Give back what it holds; nothing is read afterwards."""
