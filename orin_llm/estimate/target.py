"""The board that an estimate is for: what its power modes leave, and how much memory it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from orin_llm.device.board import read_board
from orin_llm.device.budget import MemoryBudget
from orin_llm.device.caps import read_caps
from orin_llm.device.modules import (
    AGX_ORIN_32GB,
    AGX_ORIN_64GB,
    SHIPPED_MODES,
    Module,
    ShippedMode,
)
from orin_llm.device.power_modes import read_power_modes
from orin_llm.errors import UsageError
from orin_llm.estimate.roofline import Rates
from orin_llm.host.memory import read_memory

Number = TypeVar("Number", int, float)
TARGETS = {"agx-orin-64gb": AGX_ORIN_64GB, "agx-orin-32gb": AGX_ORIN_32GB}
# What tegrastats gave as the whole of the RAM: the firmware keeps the rest for itself.
_RAM_MIB = {AGX_ORIN_64GB.part: 62801, AGX_ORIN_32GB.part: 30623}


@dataclass(frozen=True)
class Target:
    """A board.

    Attributes:
        modes: its power modes, those to estimate.
        memory: for the model, its KV caches and everything else that runs.
    """

    module: Module
    modes: tuple[Rates, ...]
    memory: MemoryBudget


def shipped_target(module: Module) -> Target:
    """A module of `TARGETS` with the power modes it ships with, and nothing else in its memory."""
    ram = _RAM_MIB[module.part] << 20
    modes = tuple(_rates(module, mode) for mode in SHIPPED_MODES[module.part])
    return Target(module, modes, MemoryBudget(ram, f"RAM that Linux has on a {module.name}"))


def this_board(root: Path = Path("/")) -> Target:
    """This machine, with its own power modes and the memory it has left; else an AGX Orin 64GB.

    `root` stands for `/`.

    Raises:
        DeviceUnavailable: it is an AGX Orin, but its power modes cannot be read.
    """
    module = read_board(root).module
    if module is None or module.gpu_max_mhz is None or module.emc_max_mhz is None:
        return shipped_target(AGX_ORIN_64GB)
    # Firmware that caps the memory's clock does so in every mode; only root can see it.
    emc_max_mhz = _least(module.emc_max_mhz, read_caps(root).emc_firmware_max_mhz)
    modes = tuple(
        Rates(
            mode=mode.name,
            sm_count=_least(module.sm_count, mode.sm_count),
            gpu_mhz=_least(module.gpu_max_mhz, mode.gpu_max_mhz),
            emc_mhz=(emc_mhz := _least(emc_max_mhz, mode.emc_max_mhz)),
            bandwidth_gb_s=module.bandwidth_gb_s(emc_mhz),
        )
        for mode in read_power_modes(root).modes
    )
    memory = MemoryBudget(read_memory(root).available, "available memory of this board")
    return Target(module, modes, memory)


def module_named(name: str) -> Module:
    """The module of a name in `TARGETS`.

    Raises:
        UsageError: there is none; the message lists those there are.
    """
    if name.lower() not in TARGETS:
        raise UsageError(f"unknown module {name!r}: choose one of {', '.join(TARGETS)}")
    return TARGETS[name.lower()]


def chosen_modes(modes: Sequence[Rates], names: str | None) -> tuple[Rates, ...]:
    """The modes of a list such as `MAXN,30W`, in its order; None is all. `MODE_` may be left out.

    Raises:
        UsageError: a name that the board does not have.
    """
    if names is None:
        return tuple(modes)
    by_name = {_short(rates.mode): rates for rates in modes}
    wanted = [_short(name.strip()) for name in names.split(",")]
    for name in wanted:
        if name not in by_name:
            there = ", ".join(rates.mode for rates in modes)
            raise UsageError(f"no power mode {name!r}: this board has {there}")
    return tuple(by_name[name] for name in dict.fromkeys(wanted))


def _least(most: Number, cap: Number | None) -> Number:
    return most if cap is None else min(most, cap)


def _short(name: str) -> str:
    return name.upper().removeprefix("MODE_")


def _rates(module: Module, mode: ShippedMode) -> Rates:
    return Rates(
        mode=mode.name,
        sm_count=mode.sm_count,
        gpu_mhz=mode.gpu_max_mhz,
        emc_mhz=mode.emc_max_mhz,
        bandwidth_gb_s=module.bandwidth_gb_s(mode.emc_max_mhz),
    )
