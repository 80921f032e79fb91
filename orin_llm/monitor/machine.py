"""What stays the same of the machine that is watched."""

from __future__ import annotations

import socket
from pathlib import Path

from orin_llm.device.board import Board
from orin_llm.device.caps import read_caps
from orin_llm.device.power_modes import PowerMode, current_power_mode, read_power_modes
from orin_llm.errors import DeviceUnavailable
from orin_llm.monitor.snapshot import Subject


def read_subject(board: Board, root: Path = Path("/")) -> Subject:
    """The machine with its power mode, as it is set now. `root` stands for `/`."""
    mode = _power_mode(root) if board.is_jetson else None
    return Subject(
        name=board.name,
        is_jetson=board.is_jetson,
        l4t=board.l4t,
        jetpack=board.jetpack,
        mode=mode.name if mode else None,
        budget_w=mode.budget_w if mode else None,
        peak_bandwidth_gb_s=read_caps(root).peak_bandwidth_gb_s(board.module),
        host=socket.gethostname(),
    )


def _power_mode(root: Path) -> PowerMode | None:
    try:
        return current_power_mode(read_power_modes(root), root)
    except DeviceUnavailable:
        return None
