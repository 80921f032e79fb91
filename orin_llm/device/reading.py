"""One reading of the machine's sensors, from whichever sources could be read. Missing is None."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from orin_llm.device.modules import Module
from orin_llm.errors import OrinError

# Rails whose sum is the whole of an AGX Orin: VDDQ_VDD2_1V8AO is fed from VIN_SYS_5V0, so adding
# it would count it twice, and VIN_SYS_5V0 alone leaves out the GPU and the CPU.
_AGX_ORIN_RAILS = ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")
# Orin NX and Nano measure their input, which is the total.
_INPUT_RAIL = "VDD_IN"
_TOGETHER = (
    ("ram_used_bytes", "ram_total_bytes"),
    ("swap_used_bytes", "swap_total_bytes"),
    ("rails_w", "power_w"),
    ("cores", "cpu_percent"),
)
# Members of a reading by their kind; the others are numbers.
_WORDS = ("sources", "throttled", "unknown")
_BY_NAME = ("temperatures_c", "rails_w")
_NEVER_MISSING = ("at_ms", "sources", "cores", "unknown", *_BY_NAME)


@dataclass(frozen=True)
class Core:
    """One processor core; a core that is switched off has neither load nor clock."""

    online: bool
    percent: float | None = None
    mhz: float | None = None


@dataclass(frozen=True)
class Reading:
    """What the sensors said at one time. A sensor that nothing could read is None, never 0.

    Attributes:
        at_ms: of the clock of `time.monotonic()`, as `StepRecord.started_ms`.
        sources: names of those that something was read from.
        cores: empty where nothing tells.
        gpu_percent: time in which the GPU worked.
        emc_percent: memory traffic, of what is possible at the clock `emc_mhz`.
        bandwidth_gb_s: memory traffic.
        ram_used_bytes: what the kernel or the tool calls used, page cache not included.
        gpu_memory_used_bytes: the GPU's own memory, or its share of a common one.
        largest_free_block_bytes, largest_free_blocks: unfragmented memory.
        temperatures_c: by the sensor's name in lower case.
        rails_w: by the rail's name; `power_w` is the total, in which no rail counts
            twice; on a PC it is that of the GPU's card.
        energy_j: of a counter that the hardware keeps, since some past time.
        throttled: what slows the machine down now, such as `cpu`, `gpu`; empty: nothing does.
        over_current_events: since the machine was started.
        unknown: words of tegrastats that have no place here, in their order.
    """

    at_ms: float
    sources: tuple[str, ...] = ()
    cores: tuple[Core, ...] = ()
    cpu_percent: float | None = None
    gpu_percent: float | None = None
    gpu_mhz: float | None = None
    emc_percent: float | None = None
    emc_mhz: float | None = None
    bandwidth_gb_s: float | None = None
    ram_used_bytes: int | None = None
    ram_total_bytes: int | None = None
    swap_used_bytes: int | None = None
    swap_total_bytes: int | None = None
    gpu_memory_used_bytes: int | None = None
    gpu_memory_total_bytes: int | None = None
    largest_free_block_bytes: int | None = None
    largest_free_blocks: int | None = None
    temperatures_c: Mapping[str, float] = field(default_factory=dict)
    rails_w: Mapping[str, float] = field(default_factory=dict)
    power_w: float | None = None
    energy_j: float | None = None
    throttled: tuple[str, ...] | None = None
    over_current_events: int | None = None
    unknown: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All fields; null for what could not be read."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Reading:
        """What `to_json` gave, by way of JSON; members that are not known are left out.

        Raises:
            OrinError: a member is of another type, or `at_ms` is missing.
        """
        known = {entry.name: data[entry.name] for entry in fields(cls) if entry.name in data}
        for name, value in known.items():
            known[name] = _of_json(name, value)
        if "at_ms" not in known:
            raise OrinError("a reading without at_ms")
        return cls(**known)

    @property
    def hottest_c(self) -> float | None:
        """The highest temperature of any sensor."""
        return max(self.temperatures_c.values(), default=None)


def _of_json(name: str, value: Any) -> Any:
    if name == "cores" and isinstance(value, list):
        return tuple(_core(core) for core in value)
    if name in _WORDS and isinstance(value, list):
        if all(isinstance(word, str) for word in value):
            return tuple(value)
    elif name in _BY_NAME and isinstance(value, dict):
        if all(_is_number(entry) for entry in value.values()):
            return value
    elif name not in ("cores", *_WORDS, *_BY_NAME) and _is_number(value):
        return value
    if value is None and name not in _NEVER_MISSING:
        return None
    raise OrinError(f"{name} of a reading cannot be {value!r}")


def _core(data: Any) -> Core:
    if not isinstance(data, dict) or not isinstance(data.get("online"), bool):
        raise OrinError(f"a core of a reading cannot be {data!r}")
    percent, mhz = data.get("percent"), data.get("mhz")
    if not all(value is None or _is_number(value) for value in (percent, mhz)):
        raise OrinError(f"a core of a reading cannot be {data!r}")
    return Core(data["online"], percent, mhz)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def merge(at_ms: float, readings: Iterable[Reading]) -> Reading:
    """One reading of several, the best first: each value is of the first that could read it.

    Values that are only right together, such as the rails and their total, are of one reading.
    """
    merged: dict[str, Any] = {"at_ms": at_ms}
    sources: list[str] = []
    for reading in readings:
        values = {entry.name: getattr(reading, entry.name) for entry in fields(reading)}
        present = {name: value for name, value in values.items() if _is_read(name, value)}
        for group in _TOGETHER:
            if any(name in merged for name in group):
                present = {name: value for name, value in present.items() if name not in group}
        sources += reading.sources
        temperatures = {**reading.temperatures_c, **merged.get("temperatures_c", {})}
        merged |= {name: value for name, value in present.items() if name not in merged}
        merged["temperatures_c"] = temperatures
    return Reading(**{**merged, "sources": tuple(dict.fromkeys(sources))})


def _is_read(name: str, value: Any) -> bool:
    nothing_throttles = name == "throttled" and value == ()
    return nothing_throttles or value not in (None, {}, ())


def total_power_w(rails_w: Mapping[str, float]) -> float | None:
    """The machine's power from its rails; None where the rails do not tell all of it."""
    if _INPUT_RAIL in rails_w:
        return rails_w[_INPUT_RAIL]
    if all(rail in rails_w for rail in _AGX_ORIN_RAILS):
        return sum(rails_w[rail] for rail in _AGX_ORIN_RAILS)
    return None


def bandwidth_gb_s(
    emc_percent: float | None, emc_mhz: float | None, module: Module | None
) -> float | None:
    """Memory traffic from the load, which is of the current clock; None if anything is missing."""
    if emc_percent is None or emc_mhz is None or module is None:
        return None
    return emc_percent / 100 * module.bandwidth_gb_s(emc_mhz)


def mean(values: Iterable[float | None]) -> float | None:
    """Of those that were read; None if none was."""
    read = [value for value in values if value is not None]
    return sum(read) / len(read) if read else None
