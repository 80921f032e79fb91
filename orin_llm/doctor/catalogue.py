"""All checks, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from orin_llm.doctor import (
    build,
    cuda,
    memory,
    memory_clock,
    model,
    power,
    software,
    thermal,
)
from orin_llm.doctor.finding import Finding, worst_first
from orin_llm.doctor.machine import Machine

CHECKS: tuple[Callable[[Machine], Iterator[Finding]], ...] = (
    build.processor,
    build.gpu,
    build.architectures,
    build.binary_code,
    cuda.driver,
    cuda.virtual_memory,
    cuda.kv_memory,
    cuda.largest_block,
    cuda.copy_bandwidth,
    power.power_mode,
    power.gpu_units,
    power.gpu_clock,
    power.pinned_clocks,
    power.processor_clock,
    memory_clock.cap_of_mode,
    memory_clock.cap_of_firmware,
    memory_clock.clock_under_load,
    memory.available,
    memory.fragmentation,
    memory.swap,
    thermal.temperature,
    thermal.throttling,
    thermal.over_current,
    thermal.fan,
    software.l4t,
    software.jetpack,
    software.desktop,
    software.unified_memory,
    software.jtop,
    model.fits,
    model.disk,
)


def check(machine: Machine) -> list[Finding]:
    """Everything that was found, the worst first."""
    return worst_first(finding for one in CHECKS for finding in one(machine))
