"""On what a figure was measured: the machine and how it was set, in a form that can be compared."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orin_llm.device.board import Board, read_board
from orin_llm.device.caps import TPCS_OF_CHIP, Caps, read_caps
from orin_llm.device.clocks import emc_pinned, gpu_pinned
from orin_llm.device.gpu import find_gpus
from orin_llm.device.modules import SMS_PER_TPC
from orin_llm.device.power_modes import current_power_mode, read_power_modes
from orin_llm.errors import DeviceUnavailable
from orin_llm.host.cpu import read_cpu


@dataclass(frozen=True)
class Stamp:
    """A machine and its settings. What nothing tells is None, and only that.

    Attributes:
        kind: `jetson`, `pc` or `pc-gpu`.
        board: its name, for people.
        module: part number, such as `p3701-0005`.
        l4t, jetpack: releases, such as `36.4.3` and `6.2`.
        power_mode: name of the mode that nvpmodel has set.
        gpu_units: TPCs of the GPU that are on, two SMs each.
        gpu_cap_mhz: the highest clock that the GPU may have now.
        emc_cap_mhz: the highest that the memory may have: the least of what nvpmodel and the
            firmware allow. None where the firmware's cannot be read and nvpmodel sets none: the
            firmware may cap it all the same.
        clocks_pinned: jetson_clocks holds the clocks at their highest.
        gpu: name of the first GPU that can be used.
        cpu, cores: the processor, and its cores that are on and that this process may use.
    """

    kind: str
    board: str
    module: str | None
    l4t: str | None
    jetpack: str | None
    power_mode: str | None
    gpu_units: int | None
    gpu_cap_mhz: float | None
    emc_cap_mhz: float | None
    clocks_pinned: bool | None
    gpu: str | None
    cpu: str
    cores: int

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


def read_stamp(root: Path = Path("/")) -> Stamp:
    """Read this machine's; nvpmodel is asked. `root` stands for `/`."""
    board, caps, cpu = read_board(root), read_caps(root), read_cpu(root)
    gpu = next(iter(find_gpus(root).usable), None)
    jetson = board.is_jetson
    return Stamp(
        kind=board.kind,
        board=board.name,
        module=board.module.part if board.module else None,
        l4t=board.l4t,
        jetpack=board.jetpack,
        power_mode=_power_mode(root) if jetson else None,
        gpu_units=_gpu_units(board, caps),
        gpu_cap_mhz=caps.gpu_max_mhz,
        emc_cap_mhz=_emc_cap(board, caps),
        clocks_pinned=_pinned(caps, root) if jetson else None,
        gpu=gpu.name if gpu else None,
        cpu=cpu.model,
        cores=(caps.cpus_online if jetson else None) or cpu.physical_cores,
    )


def _power_mode(root: Path) -> str | None:
    try:
        mode = current_power_mode(read_power_modes(root), root)
    except DeviceUnavailable:
        return None
    return mode.name if mode else None


def _gpu_units(board: Board, caps: Caps) -> int | None:
    """The mask is of the chip, and a module may have fewer."""
    if not board.is_jetson or caps.sm_count is None:
        return None
    most = board.module.sm_count // SMS_PER_TPC if board.module else TPCS_OF_CHIP
    return min(caps.sm_count // SMS_PER_TPC, most)


def _emc_cap(board: Board, caps: Caps) -> float | None:
    if caps.emc_cap_mhz is None and caps.emc_firmware_max_mhz is None:
        return None
    return caps.emc_max_mhz(board.module)


def _pinned(caps: Caps, root: Path) -> bool | None:
    """A memory whose clock cannot be read is left out."""
    gpu = gpu_pinned(caps)
    return gpu and emc_pinned(root) is not False
