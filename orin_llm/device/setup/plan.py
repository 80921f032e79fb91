"""The plan: for each change the state that is and the one to be. Making it changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from orin_llm.device.setup.change import Change, State
from orin_llm.device.setup.system import System
from orin_llm.errors import OrinError, UsageError


@dataclass(frozen=True)
class Step:
    """One change on this machine.

    Attributes:
        now, wanted: the states; empty if there is a problem.
        problem: why it cannot be made here, or "".
        waits: what of the present state is not in force before a reboot, or "".
    """

    change: Change
    now: State
    wanted: State
    problem: str = ""
    waits: str = ""

    @property
    def pending(self) -> bool:
        """There is something to do."""
        return not self.problem and self.now != self.wanted

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "name": self.change.name,
            "title": self.change.title,
            "file": self.change.file,
            "pending": self.pending,
            "now": dict(self.now),
            "wanted": dict(self.wanted),
            "problem": self.problem,
            "reboot": self.change.reboot,
            "waits_for_reboot": self.waits,
        }


def make_plan(system: System, changes: Iterable[Change]) -> tuple[Step, ...]:
    """Read the state of every change.

    Raises:
        UsageError: what was asked for does not exist, such as a power mode.
    """
    return tuple(_step(system, change) for change in changes)


def _step(system: System, change: Change) -> Step:
    try:
        now = change.read(system)
        wanted = change.wanted(system, now)
        waits = change.waits_for_reboot(system, now)
        return Step(change, now, wanted, waits=waits)
    except UsageError:
        raise
    except (OrinError, OSError) as error:
        return Step(change, {}, {}, problem=str(error))
