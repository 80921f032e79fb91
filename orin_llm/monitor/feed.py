"""Where snapshots come from: the machine now, or a recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from orin_llm.monitor.snapshot import Snapshot, Subject


class Feed(Protocol):
    """A sequence of snapshots. Who asks for them keeps the time between them."""

    @property
    def subject(self) -> Subject:
        """The machine that is watched."""

    @property
    def interval_s(self) -> float:
        """Between two snapshots, as they are meant to be taken."""

    @property
    def problems(self) -> Mapping[str, str]:
        """Why sources or engines give nothing at the newest snapshot, by their names."""

    def next(self) -> Snapshot | None:
        """The next snapshot; None when it is over.

        Raises:
            OrinError: there is one that cannot be read.
        """

    def close(self) -> None:
        """Give back what it holds."""
