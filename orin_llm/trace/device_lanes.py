"""The device in a trace: its sensors as counters, and when it was throttled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orin_llm.device.reading import Reading
from orin_llm.trace.events import Clock, Event, Group, Lane

DEVICE = Group(3, "device")
THROTTLING = Lane(DEVICE, 1, "throttling")
_MIB = 1 << 20


def device_events(clock: Clock, readings: Sequence[Reading]) -> Iterator[Event]:
    """What was read; a sensor that was not read has no line."""
    if not readings:
        return
    yield from DEVICE.describe()
    yield from THROTTLING.describe()
    before: tuple[str, ...] = ()
    for reading in readings:
        for name, values in _sensors(reading).items():
            yield from clock.counter(DEVICE, name, reading.at_ms, values)
        if reading.throttled and reading.throttled != before:
            by = ", ".join(reading.throttled)
            yield clock.instant(THROTTLING, f"throttled: {by}", reading.at_ms, {})
        before = reading.throttled or ()


def _sensors(reading: Reading) -> dict[str, dict[str, float | None]]:
    rails: dict[str, float | None] = dict(reading.rails_w)
    return {
        "power (W)": {"total": reading.power_w},
        "rails (W)": rails,
        "EMC (%)": {"load": reading.emc_percent},
        "EMC (MHz)": {"clock": reading.emc_mhz},
        "memory traffic (GB/s)": {"read and written": reading.bandwidth_gb_s},
        "GPU (%)": {"load": reading.gpu_percent},
        "GPU (MHz)": {"clock": reading.gpu_mhz},
        "CPU (%)": {"load": reading.cpu_percent},
        "memory (MiB)": {
            "used": _mib(reading.ram_used_bytes),
            "GPU": _mib(reading.gpu_memory_used_bytes),
        },
        "hottest (°C)": {"temperature": reading.hottest_c},
    }


def _mib(size: int | None) -> float | None:
    return None if size is None else size / _MIB
