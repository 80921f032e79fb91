"""Readings from the kernel's own files: loads, clocks, temperatures, power rails, throttling."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

from orin_llm.device.nodes import (
    EMC_CLOCK,
    GPU_CLOCK,
    GPU_LOAD,
    first_int,
    read_int,
    read_text,
)
from orin_llm.device.reading import Reading, total_power_w
from orin_llm.device.source import SourceUnavailable

_SEARCH_MS = 5000  # sensors come and go with drivers and sleeping parts of the chip
_OFF_MILLI_C = -256000
_ZONE_SUFFIX = re.compile(r"[-_]?therm(al)?$")
# Cooling "devices" that are in a state above 0 while the firmware or the kernel lowers clocks.
_ALERT_SUFFIXES = ("-throttle-alert", "hot-surface-alert")


@dataclass(frozen=True)
class _Files:
    """Where the sensors of this machine are; their numbers differ from boot to boot."""

    temperatures: dict[str, Path]
    rails: dict[str, tuple[Path, Path]]  # mV, mA
    alerts: dict[str, Path]
    over_current: tuple[Path, ...]


class Sysfs:
    """The source `sysfs`. The memory's clock is read as root only.

    Its load is left to others: kernels and the tools that read it do not agree on its unit.
    """

    name = "sysfs"

    def __init__(self, root: Path = Path("/")) -> None:
        """Look for sensors.

        Raises:
            SourceUnavailable: there are none.
        """
        self._root = root
        self._files = _find(root)
        self._searched_ms = time.monotonic() * 1000
        self.problem = ""
        if self.read().sources == ():
            raise SourceUnavailable(f"{root / 'sys'} shows no sensor that is known here")

    def read(self) -> Reading:
        """The sensors now."""
        now_ms = time.monotonic() * 1000
        if now_ms - self._searched_ms > _SEARCH_MS:
            self._files, self._searched_ms = _find(self._root), now_ms
        temperatures = _temperatures(self._files)
        rails = _rails(self._files)
        load = first_int(self._root, GPU_LOAD)
        clock = first_int(self._root, (f"{folder}/cur_freq" for folder in GPU_CLOCK))
        emc = read_int(self._root / EMC_CLOCK / "rate")
        throttled = _throttled(self._files)
        events = [n for path in self._files.over_current if (n := read_int(path)) is not None]
        found = temperatures or rails or throttled is not None or events
        if not found and load is None and clock is None and emc is None:
            self.problem = "no sensor can be read"
            return Reading(now_ms)
        self.problem = ""
        return Reading(
            at_ms=now_ms,
            sources=(self.name,),
            gpu_percent=None if load is None else load / 10,
            gpu_mhz=None if clock is None else clock / 1e6,
            emc_mhz=None if emc is None else emc / 1e6,
            temperatures_c=temperatures,
            rails_w=rails,
            power_w=total_power_w(rails),
            throttled=throttled,
            over_current_events=sum(events) if events else None,
        )

    def close(self) -> None:
        """Nothing is held."""


def _find(root: Path) -> _Files:
    rails: dict[str, tuple[Path, Path]] = {}
    over_current: list[Path] = []
    for folder in sorted(root.glob("sys/class/hwmon/hwmon*")):
        name = read_text(folder / "name")
        if name == "ina3221":
            rails |= _find_rails(folder)
        elif name == "soctherm_oc":
            over_current += sorted(folder.glob("oc*_event_cnt"))
    return _Files(
        temperatures={
            _ZONE_SUFFIX.sub("", kind.lower()): zone / "temp"
            for zone in sorted(root.glob("sys/class/thermal/thermal_zone*"))
            if (kind := read_text(zone / "type"))
        },
        rails=rails,
        alerts={
            kind.removesuffix("-alert").removesuffix("-throttle"): device / "cur_state"
            for device in sorted(root.glob("sys/class/thermal/cooling_device*"))
            if (kind := read_text(device / "type")) and kind.endswith(_ALERT_SUFFIXES)
        },
        over_current=tuple(over_current),
    )


def _find_rails(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Channels that measure a current; the chip also has labels for sums of voltages."""
    rails = {}
    for label in sorted(folder.glob("in*_label")):
        number = label.name.removeprefix("in").removesuffix("_label")
        name, current = read_text(label), folder / f"curr{number}_input"
        if name and name != "NC" and current.exists():
            rails[name] = (folder / f"in{number}_input", current)
    return rails


def _temperatures(files: _Files) -> dict[str, float]:
    values = {name: read_int(path) for name, path in files.temperatures.items()}
    return {
        name: milli / 1000
        for name, milli in values.items()
        if milli is not None and milli != _OFF_MILLI_C
    }


def _rails(files: _Files) -> dict[str, float]:
    found = {}
    for name, (voltage, current) in files.rails.items():
        millivolt, milliampere = read_int(voltage), read_int(current)
        if millivolt is not None and milliampere is not None:
            found[name] = millivolt * milliampere / 1e6
    return found


def _throttled(files: _Files) -> tuple[str, ...] | None:
    states = {name: read_int(path) for name, path in files.alerts.items()}
    known = {name: state for name, state in states.items() if state is not None}
    return tuple(sorted(name for name, state in known.items() if state > 0)) if known else None
