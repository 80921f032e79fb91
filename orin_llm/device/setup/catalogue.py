"""All changes that the setup knows, in the order in which they are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orin_llm.device.board import Board
from orin_llm.device.setup.change import Change
from orin_llm.device.setup.files import RuleChange, ServiceChange
from orin_llm.device.setup.monitor import MonitorChange
from orin_llm.device.setup.power_mode import PowerModeChange
from orin_llm.device.setup.services import DesktopChange, FanChange, GroupsChange
from orin_llm.device.setup.swap import SwapFileChange, ZramChange
from orin_llm.device.setup.units import ClocksChange, EmcChange
from orin_llm.errors import UsageError


@dataclass(frozen=True)
class SetupChoices:
    """What the setup is to bring about.

    Attributes:
        mode: power mode, by name.
        fan: profile of the fan.
        swap_bytes: size of the swap file.
        user: who runs the toolkit, and may read the sensors; "" if nobody is known.
        program: absolute path of `orin-llm`, for the units.
    """

    mode: str
    fan: str
    swap_bytes: int
    user: str
    program: str


def all_changes(choices: SetupChoices, board: Board) -> tuple[Change, ...]:
    """Every change. The mode is first: it limits the clocks that are pinned after it."""
    return (
        PowerModeChange(choices.mode),
        EmcChange(choices.mode, board.module),
        ClocksChange(),
        FanChange(choices.fan),
        DesktopChange(),
        SwapFileChange(choices.swap_bytes),
        ZramChange(),
        RuleChange(),
        GroupsChange(choices.user),
        ServiceChange(choices.program, choices.user or "root"),
        MonitorChange(choices.program, choices.user or "root"),
    )


def select(
    changes: Sequence[Change], only: Sequence[str], skip: Sequence[str]
) -> tuple[Change, ...]:
    """Those named in `only` (none: all) without those in `skip`, in their order.

    Raises:
        UsageError: a name that no change has.
    """
    names = [change.name for change in changes]
    for name in (*only, *skip):
        if name not in names:
            raise UsageError(f"no change {name!r}: there are {', '.join(names)}")
    chosen = set(only or names) - set(skip)
    return tuple(change for change in changes if change.name in chosen)
