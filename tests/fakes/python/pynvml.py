"""A stand-in for pynvml. Tests set what the GPU answers; what is not set is not supported."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

NVML_TEMPERATURE_GPU = 0
NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
answers: dict[str, Any] = {}
started = False


class NVMLError(Exception):
    pass


def nvmlInit() -> None:
    global started
    if "init_error" in answers:
        raise NVMLError(answers["init_error"])
    started = True


def nvmlShutdown() -> None:
    global started
    if not started:
        raise NVMLError("Uninitialized")
    started = False


def nvmlDeviceGetHandleByIndex(index: int) -> str:
    return f"gpu{index}"


def _answer(handle: str, name: str) -> Any:
    if handle != "gpu0" or not started or name not in answers:
        raise NVMLError("Not Supported")
    return answers[name]


def nvmlDeviceGetUtilizationRates(handle: str) -> Any:
    return SimpleNamespace(gpu=_answer(handle, "utilization"), memory=99)


def nvmlDeviceGetMemoryInfo(handle: str) -> Any:
    used, total = _answer(handle, "memory")
    return SimpleNamespace(used=used, total=total)


def nvmlDeviceGetPowerUsage(handle: str) -> Any:
    return _answer(handle, "milliwatt")


def nvmlDeviceGetTotalEnergyConsumption(handle: str) -> Any:
    return _answer(handle, "millijoule")


def nvmlDeviceGetTemperature(handle: str, sensor: int) -> Any:
    assert sensor == NVML_TEMPERATURE_GPU
    return _answer(handle, "celsius")


def nvmlDeviceGetClockInfo(handle: str, clock: int) -> Any:
    return _answer(handle, f"clock{clock}")


def nvmlDeviceGetCurrentClocksThrottleReasons(handle: str) -> Any:
    return _answer(handle, "reasons")
