"""Readings from NVML, where pynvml is installed. On a Jetson it tells little or nothing."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from orin_llm.device.optional import one_line, optional_module
from orin_llm.device.reading import Reading
from orin_llm.device.source import SourceUnavailable

_RETRY_MS = 5000  # after the driver was reloaded the library has to be started again
# Bits of nvmlClocksThrottleReasons; that the GPU idles or a user set its clock slows nothing down.
_THROTTLE_REASONS = {
    0x0004: "power-cap",
    0x0008: "hardware",
    0x0020: "thermal",
    0x0040: "thermal-hardware",
    0x0080: "power-brake",
}


class Nvml:
    """The source `nvml`: the first GPU of the machine."""

    name = "nvml"

    def __init__(self) -> None:
        """Start the library.

        Raises:
            SourceUnavailable: pynvml is not installed, there is no driver, or it tells nothing.
        """
        self._nvml = optional_module("pynvml", "pynvml")
        self._gpu: Any = None
        self._tried_ms = float("-inf")
        self.problem = ""
        if self.read().sources == ():
            self.close()
            raise SourceUnavailable(self.problem)

    def read(self) -> Reading:
        """The GPU now."""
        now_ms = time.monotonic() * 1000
        if self._gpu is None and not self._start(now_ms):
            return Reading(now_ms)
        nvml = self._nvml
        utilization = self._ask("UtilizationRates")
        memory = self._ask("MemoryInfo")
        milliwatt = self._ask("PowerUsage")
        millijoule = self._ask("TotalEnergyConsumption")
        # Old drivers have only the second of these names, and CUDA 14 will have only the first.
        sensor = nvml.NVML_TEMPERATURE_GPU
        celsius = self._ask("TemperatureV", sensor)
        if celsius is None:
            celsius = self._ask("Temperature", sensor)
        reasons = self._ask("CurrentClocksEventReasons")
        if reasons is None:
            reasons = self._ask("CurrentClocksThrottleReasons")
        if all(value is None for value in (utilization, memory, milliwatt, celsius)):
            self.close()
            self.problem = "NVML tells nothing about this GPU"
            return Reading(now_ms)
        self.problem = ""
        watt = None if milliwatt is None else milliwatt / 1000
        return Reading(
            at_ms=now_ms,
            sources=(self.name,),
            gpu_percent=None if utilization is None else float(utilization.gpu),
            gpu_mhz=self._clock(nvml.NVML_CLOCK_SM),
            emc_mhz=self._clock(nvml.NVML_CLOCK_MEM),
            gpu_memory_used_bytes=None if memory is None else int(memory.used),
            gpu_memory_total_bytes=None if memory is None else int(memory.total),
            temperatures_c={} if celsius is None else {"gpu": float(celsius)},
            rails_w={} if watt is None else {"GPU": watt},
            power_w=watt,
            energy_j=None if millijoule is None else millijoule / 1000,
            throttled=None if reasons is None else _names(int(reasons)),
        )

    def close(self) -> None:
        """Give the library back."""
        self._gpu = None
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def _start(self, now_ms: float) -> bool:
        if now_ms - self._tried_ms < _RETRY_MS:
            return False
        self._tried_ms = now_ms
        try:
            self._nvml.nvmlInit()
            self._gpu = self._nvml.nvmlDeviceGetHandleByIndex(0)
        except self._nvml.NVMLError as error:
            self.problem = f"NVML: {one_line(error)}"
            return False
        return True

    def _clock(self, kind: int) -> float | None:
        mhz = self._ask("ClockInfo", kind)
        return None if mhz is None else float(mhz)

    def _ask(self, question: str, *arguments: Any) -> Any:
        """The answer; None where GPU, driver or package do not know the question."""
        ask = getattr(self._nvml, f"nvmlDeviceGet{question}", None)
        if ask is None:
            return None
        try:
            return ask(self._gpu, *arguments)
        except self._nvml.NVMLError:
            return None


def _names(reasons: int) -> tuple[str, ...]:
    return tuple(name for bit, name in _THROTTLE_REASONS.items() if reasons & bit)
