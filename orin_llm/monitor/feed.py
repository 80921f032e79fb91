"""Where snapshots come from: the machine now, or a recording."""

from __future__ import annotations

import math
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

    @property
    def note(self) -> str:
        """What is odd about where they come from, or ""."""

    def next(self) -> Snapshot | None:
        """The next snapshot; None when it is over.

        Raises:
            OrinError: there is one that cannot be read.
        """

    def close(self) -> None:
        """Give back what it holds."""


def next_due_s(due_s: float, interval_s: float, now_s: float) -> float:
    """The next time in the rhythm that lies ahead, however many have been missed."""
    return due_s + interval_s * max(1, math.ceil((now_s - due_s) / interval_s))
